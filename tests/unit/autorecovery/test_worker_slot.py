"""
Slots of a worker.
"""

from __future__ import annotations

from random import Random

from pystore.autorecovery.worker_slot import WorkerSlot
from pystore.records.memory import MemoryStore


def test_no_two_locks_of_a_slot_have_the_same_text() -> None:
    """
    Also if its chance repeats itself, as with a fixed seed after a restart.
    """
    slot = WorkerSlot(MemoryStore(), "w/0", lambda: 0.5)
    others = WorkerSlot(MemoryStore(), "w/0", Random(1).random)

    assert 100 == len({slot.nonce() for _ in range(100)})
    assert slot.nonce().split(".")[0] != others.nonce().split(".")[0]
