"""
From the moment at which the loss of a host is due to the first segments that its
replacements are to be filled with.

A controller, hosts with two sets, spare hosts and the recovery daemon are processes as
they ship, with the periods that they ship with. The host is killed by SIGKILL; its loss
is due at the end of the shortest delay, 1 s.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from contest import Figure
from lib.broker_process import SEGMENT, until
from lib.controller.controller_process import ControllerProcess
from lib.host_process import HostProcess
from lib.recovery_process import RecoveryProcess
from machine import load
from recovery_waits import await_knowing
from table import Table

from pystore.autorecovery.loss import decode_loss
from pystore.autorecovery.mark import Reason
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.replica_key import LOST
from pystore.clocks import wall_ms
from pystore.records.lmdb_store import LmdbStore

ROUNDS = 5
LIMIT_S = 1
DELAY_S = 1
SEGMENTS = 6
LOOK_S = 0.005
PATIENCE_S = 60
_SETS = {"b0": ("one", "two", "three"), "b1": ("two", "three", "one")}
_SPARES = ("four", "five")


@dataclass(frozen=True)
class _Times:
    """
    Of one host, in seconds.

    Attributes:
        first: from the moment at which the loss of its first replica was due to the
            first offer.
        all: the same to the first offer of the last of its sets.
        total: the latter from SIGKILL on.
    """

    first: float
    all: float
    total: float


class _Hosts:
    """
    The processes. Each set has its master on another host.

    Args:
        folder: of all of them.
        stack: ends the processes.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        records = folder / "records"
        words = ("--store", records)
        controller = stack.enter_context(ControllerProcess(*words)).address
        self.hosts = {
            name: stack.enter_context(HostProcess(folder, name, controller, periods=""))
            for name in ("one", "two", "three", *_SPARES)
        }
        for name, members in _SETS.items():
            for count, host in enumerate(members, 1):
                added = self.hosts[host].add(name=name)
                assert added.exit_code == 0, added.output
                self._await_members(self.hosts[members[0]], name, count)
            self._fill(self.hosts[members[0]], name)
        self._store = stack.enter_context(closing(LmdbStore(records)))
        self._queue = UnderReplicationQueue(self._store, wall_ms)
        self._queue.change_settings({"delay_s": DELAY_S})
        await_knowing(controller, "c", "b0")
        # The offers stay: no worker takes them.
        daemon = RecoveryProcess(
            controller,
            "--records",
            records,
            said=folder / "recovery.log",
            more=("--slots", "0"),
        )
        stack.enter_context(daemon)
        until(lambda: "is the Auditor" in daemon.said)

    @staticmethod
    def _await_members(master: HostProcess, name: str, count: int) -> None:
        def has_them() -> bool:
            with master.client(name) as client:
                (now,) = client.status()
            return now["role"] == "master" and len(now["syncStateSet"]) == count

        until(has_them)

    @staticmethod
    def _fill(master: HostProcess, name: str) -> None:
        with master.client(name) as client:
            while client.status()[0]["confirmOffset"] < SEGMENTS * SEGMENT:
                client.append("t", [b"x" * 8000] * 32, ack="all", timeout_ms=20_000)

    def lose(self, name: str) -> _Times:
        """
        Kills a host, and waits until something is offered for each of its sets.
        """
        killed_ms = wall_ms()
        self.hosts[name].kill()
        offered: dict[str, int] = {}
        while offered.keys() < _SETS.keys():
            assert wall_ms() < killed_ms + 1000 * PATIENCE_S
            time.sleep(LOOK_S)
            for key, mark in self._queue.list().items():
                if any(one.reason is Reason.FILL for one in mark.missing.values()):
                    offered.setdefault(key.set_name, wall_ms())
        lost = [decode_loss(one.value, one.key) for one in self._store.scan(LOST)]
        due_ms = min(one.due_ms for one in lost)
        assert due_ms >= killed_ms, lost
        last_ms = max(offered.values())
        return _Times(
            (min(offered.values()) - due_ms) / 1000,
            (last_ms - due_ms) / 1000,
            (last_ms - killed_ms) / 1000,
        )


@pytest.mark.benchmark(group="recovery loss")
def test_replacements_of_a_lost_host_are_soon_offered_what_they_lack(
    folder: Callable[[], Path], is_smoke: bool, table: Table
) -> None:
    """
    Any of three hosts, which carries the master of one of two sets, or none.
    """
    seed = time.time_ns()
    chance = random.Random(seed)
    times: list[_Times] = []
    for _ in range(1 if is_smoke else ROUNDS):
        with ExitStack() as stack:
            found = _Hosts(folder(), stack)
            time.sleep(chance.random())  # the Auditor is in its rhythm
            times.append(found.lose(chance.choice(["one", "two", "three"])))
    whole = Figure(tuple(one.all for one in times))
    first = Figure(tuple(one.first for one in times))
    total = Figure(tuple(one.total for one in times))
    told = {
        "of the first set": f"{first.median:.2f} ({first.least:.2f} to "
        f"{first.most:.2f}) s",
        f"from SIGKILL, with the delay of {DELAY_S} s": f"{total.median:.2f} "
        f"({total.least:.2f} to {total.most:.2f}) s",
        "load": load(),
    }
    what = "a lost host to the first fill offers of both its replacements"
    table.at_most(what, LIMIT_S, whole, "s", told)
