"""
One value of what replicas hold serves all appends of its moment.
"""

from __future__ import annotations

from pystore.ha.insync.ack import Ack, AckOutcome
from pystore.ha.insync.holders import HolderOffsets

HELD = ((1, 300, 200), (2, 200, 100), (3, 250, 0))


def test_an_append_below_all_ends_is_held_by_all_replicas() -> None:
    """Up to the lowest end, and not a byte further."""
    copies = HolderOffsets(HELD, is_legacy=False)

    assert copies.settled(Ack.ALL, 200, AckOutcome.REACHED).received_by == {1, 2, 3}
    assert copies.settled(Ack.ALL, 201, AckOutcome.REACHED).received_by == {1, 3}
    assert copies.settled(Ack.ALL, 301, AckOutcome.TIMED_OUT).received_by == set()


def test_a_disk_counts_by_itself() -> None:
    """Received is not flushed."""
    copies = HolderOffsets(HELD, is_legacy=False)

    assert copies.settled(Ack.ALL_SYNCED, 0, AckOutcome.REACHED).flushed_by == {1, 2, 3}
    assert copies.settled(Ack.ALL_SYNCED, 100, AckOutcome.REACHED).flushed_by == {1, 2}
    assert copies.settled(Ack.ALL_SYNCED, 201, AckOutcome.TIMED_OUT).flushed_by == set()


def test_a_wait_is_named_as_it_ended() -> None:
    """What was promised, with what makes it worth less."""
    settled = HolderOffsets(HELD, is_legacy=True).settled(Ack.ALL, 9, AckOutcome.FENCED)

    assert (settled.end_offset, settled.outcome) == (9, AckOutcome.FENCED)
    assert settled.promise == "all (legacy)"
