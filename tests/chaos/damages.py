"""
Damage of segments that AutoRecovery has to repair: a bit that rots, a file that
vanishes or is cut short. Each is over when the copy is whole again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from chaos.broker_set import BROKERS, RECOVERIES, SEGMENT
from chaos.faults import PATIENCE_S, Fault, Surroundings
from lib.command_line import segment_file

from pystore.errors import PystoreError
from pystore.segments.store_copy import StoreCopy

__all__ = ["DAMAGES", "RECOVERY_FAULTS"]

_RETRY_S = 0.5
_MARK = Path(__file__).with_name("mark_segment.py")


def is_whole(root: Path, base: int) -> bool:
    """
    Whether a sealed segment of a store has the bytes that were sealed.
    """
    try:
        copy = StoreCopy(root)
        if not copy.facts.has(base) or copy.problem(base):
            return False
        seal = copy.seal(base)
        found = copy.digests(base, [0])
    except PystoreError:
        # It is not a store now, such as of a broker that gets an empty disk.
        return False
    return seal is not None and tuple(found.values()) == seal.block_digests


def bit_rots(around: Surroundings) -> Iterator[None]:
    """
    A bit of one copy is another one; a verification has found it.
    """
    chosen = _chosen(around)
    if chosen is None:
        return
    name, base, broker_id = chosen
    path = segment_file(around.brokers.store(name), base)
    at = around.draw.randrange(SEGMENT)
    with path.open("r+b") as file:
        file.seek(at)
        old = file.read(1)
        file.seek(at)
        file.write(bytes([old[0] ^ 1 << around.draw.randrange(8)]))
        os.fsync(file.fileno())
    yield
    inside = around.brokers.network.machines[RECOVERIES[0]].inside
    words = [*inside, sys.executable, str(_MARK), around.brokers.records[1]]
    subprocess.run([*words, str(base), str(broker_id)], check=True, timeout=60)
    _await_whole(around, name, base)


def segment_vanishes(around: Surroundings) -> Iterator[None]:
    """
    The file of one copy is gone.
    """
    chosen = _chosen(around)
    if chosen is None:
        return
    name, base, _ = chosen
    segment_file(around.brokers.store(name), base).unlink()
    yield
    _await_found(around, name, base)


def segment_is_cut_short(around: Surroundings) -> Iterator[None]:
    """
    The file of one copy ends early.
    """
    chosen = _chosen(around)
    if chosen is None:
        return
    name, base, _ = chosen
    path = segment_file(around.brokers.store(name), base)
    os.truncate(path, around.draw.randrange(SEGMENT))
    yield
    _await_found(around, name, base)


def _chosen(around: Surroundings) -> tuple[str, int, int] | None:
    """
    Returns a broker, a segment that all copies have whole, and the broker's id;
    ``None``: there is none now.
    """
    found = around.brokers.statuses()
    if len(found) < len(BROKERS):
        return None
    stores = [around.brokers.store(one) for one in BROKERS]
    begin = max(one["minOffset"] for one in found.values())
    end = min(one["confirmOffset"] for one in found.values())
    # Not the first one: retention may delete it at any moment.
    bases = list(range(begin + SEGMENT, end - SEGMENT + 1, SEGMENT))
    around.draw.shuffle(bases)
    for base in bases[:8]:
        if all(is_whole(one, base) for one in stores):
            name = around.draw.choice(BROKERS)
            return name, base, found[name]["brokerId"]
    return None


def _await_found(around: Surroundings, name: str, base: int) -> None:
    """
    An operator asks for a check, until the copy is whole.
    """
    around.brokers.ask_recovery("kick")
    _await_whole(around, name, base)


def _await_whole(around: Surroundings, name: str, base: int) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not is_whole(around.brokers.store(name), base):
        now = around.brokers.statuses().get(name, {})
        if now.get("minOffset", 0) > base:
            # Retention has deleted it, or it is another log.
            return
        assert time.monotonic() < end_s, (
            f"{base} of {name} is not repaired: "
            f"{around.brokers.ask_recovery('list', '--json')}"
        )
        around.brokers.restart_ended()
        time.sleep(_RETRY_S)


def recovery_is_killed(around: Surroundings) -> Iterator[None]:
    """
    One process of AutoRecovery; another one is there.
    """
    name = around.draw.choice(RECOVERIES)
    around.brokers.kill_recovery(name)
    yield
    around.brokers.start_recovery(name)


DAMAGES: tuple[Fault, ...] = (bit_rots, segment_vanishes, segment_is_cut_short)
"""One copy of a segment: not more than one at a time, and while the set is whole."""

RECOVERY_FAULTS: tuple[Fault, ...] = (*DAMAGES, recovery_is_killed)
"""Those of a set with AutoRecovery."""
