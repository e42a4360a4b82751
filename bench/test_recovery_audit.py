"""
One turn of the Auditor over ten thousand sets of three replicas: its time and memory.

The first turn loads and checks; then a host of some thousand replicas is lost. The
description of the sets is decoded from the pages of 7118, as it comes from a
controller.
"""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import replace

import pytest
from contest import Figure
from lib.autorecovery.audits import AtOnce, ToldCluster, a_set
from lib.autorecovery.marks import Clock
from table import Table

from pystore.autorecovery.auditor import Auditor
from pystore.autorecovery.replica_peers import ClusterView
from pystore.controller.protocol.set_descriptions import (
    SetDescription,
    decode_sets,
    encode_sets,
)
from pystore.records.memory import MemoryStore

SETS = 10_000
SMALL = 200
PAGE = 500
MIB = 1 << 20


class _Pages(ToldCluster):
    """
    All sets, as encoded pages.
    """

    def __init__(self, clock: Clock, count: int) -> None:
        super().__init__(clock, *(a_set(f"set-{n:05}") for n in range(count)))
        self._pages: list[bytes] = []
        self.encode()

    def encode(self) -> None:
        """
        Makes the pages anew, after a change.
        """
        sets: list[SetDescription] = list(self.sets.values())
        self._pages = [
            encode_sets(sets[at : at + PAGE], []) for at in range(0, len(sets), PAGE)
        ]

    def lose(self, count: int) -> None:
        """
        The third replica of so many sets is dead.
        """
        for key in list(self.sets)[:count]:
            one = self.sets[key]
            dead = replace(one.brokers[2], is_alive=False, since_ms=700_000)
            self.sets[key] = replace(one, brokers=(*one.brokers[:2], dead))
        self.encode()

    def all_sets(self) -> ClusterView:
        """
        See `Controllers.all_sets`.
        """
        sets = {
            (one.cluster, one.name): one
            for page in self._pages
            for one in decode_sets(page)[0]
        }
        return ClusterView(sets, (), 3_600_000, may_replace=True, at_ms=0)


def _auditor(cluster: _Pages) -> Auditor:
    return Auditor(
        MemoryStore(),
        cluster,
        cluster,
        AtOnce(),
        name="auditor",
        wall_ms=lambda: time.time_ns() // 1_000_000,
        steady_ms=lambda: time.monotonic_ns() // 1_000_000,
    )


def _seconds(auditor: Auditor) -> tuple[float, float]:
    """
    Returns the time of the processor and of the clock that a turn takes.
    """
    began_s, processor_s = time.monotonic(), time.process_time()
    assert auditor.step().leads
    return time.process_time() - processor_s, time.monotonic() - began_s


@pytest.mark.benchmark(group="recovery audit")
def test_an_audit_of_ten_thousand_sets_is_one_short_turn(
    is_smoke: bool, table: Table
) -> None:
    """
    The longest of some turns, by the time of the processor: other work on the machine
    does not count, and nothing waits here. And how much memory Python takes.
    """
    count = SMALL if is_smoke else SETS
    cluster = _Pages(Clock(), count)
    auditor = _auditor(cluster)
    turns = [_seconds(auditor) for _ in range(3)]
    cluster.lose(count // 3)
    turns += [_seconds(auditor) for _ in range(3)]
    assert count // 3 == len(auditor.losses_due)
    began_s = time.process_time()
    cluster.all_sets()
    decoded_s = time.process_time() - began_s

    tracemalloc.start()
    measured = _auditor(cluster)
    for _ in range(2):
        measured.step()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    told = {
        "sets": f"{count}",
        "turns": ", ".join(f"{one:.2f}" for one, _ in turns),
        "by the clock": f"{max(one for _, one in turns):.2f} s",
        "decoding alone": f"{decoded_s:.2f} s",
    }
    longest = Figure((max(one for one, _ in turns),))
    table.at_most("audit of 10,000 sets of three", 3, longest, "s", told)
    memory = Figure((most / MIB,))
    table.at_most("the same, memory at most", 200, memory, "MiB", {})
