"""
Claims: the right of one worker to repair one segment, as a held record.

A claim begins with one commit that checks the version of the mark and that there is no
lock, and ends with one commit that checks both again; so a worker that was paused, or
whose mark changed meanwhile, changes nothing. A lock disappears with its worker.

Source: BK-A49, BK-A52, BK-A57, BK-A59; AR-R11; docs/autorecovery.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pystore.autorecovery.mark import SegmentMark
from pystore.autorecovery.record_form import decode_form, encode_form
from pystore.autorecovery.segment_key import DISABLED, SegmentKey
from pystore.errors import UnknownOutcomeError
from pystore.records.ops import ABSENT, CheckVersion, Delete, Hold, Op
from pystore.records.record_store import RecordStore

__all__ = ["Claim", "begin_claim", "end_claim", "holder_of"]


@dataclass(frozen=True, slots=True)
class Claim:
    """
    A segment that a worker repairs.

    Attributes:
        key: of the segment.
        mark: as the claim saw it.
        version: of the mark.
        lock: the version of the lock.
        worker: the name of the worker's slot.
    """

    key: SegmentKey
    mark: SegmentMark
    version: int
    lock: int
    worker: str

    @property
    def is_mine(self) -> CheckVersion:
        """
        Fails once the claim has ended.
        """
        return CheckVersion(self.key.lock, self.lock)

    @property
    def is_unmarked(self) -> CheckVersion:
        """
        Fails if the mark has changed since the claim began.
        """
        return CheckVersion(self.key.mark, self.version)


def begin_claim(
    store: RecordStore,
    key: SegmentKey,
    mark: SegmentMark,
    version: int,
    *,
    worker: str,
    nonce: str,
) -> Claim | None:
    """
    Takes a segment in one commit.

    Args:
        store: of the queue.
        key: of the segment.
        mark: as read.
        version: of the mark.
        worker: the name of the slot, for people.
        nonce: different for each call.

    Returns:
        The claim; ``None``: the mark has changed, the segment is taken, or taking is
        disabled.
    """
    value = encode_form({"worker": worker, "nonce": nonce})
    ops: list[Op] = [
        CheckVersion(key.mark, version),
        CheckVersion(DISABLED, ABSENT),
        # A hold alone would succeed where another slot of this process has the lock.
        CheckVersion(key.lock, ABSENT),
        Hold(key.lock, value),
    ]
    try:
        lock = store.commit(ops)
    except UnknownOutcomeError:
        # A lock without its claim would last as long as the process.
        found = store.get(key.lock)
        lock = found.version if found is not None and found.value == value else None
    return None if lock is None else Claim(key, mark, version, lock, worker)


def end_claim(store: RecordStore, claim: Claim, ops: Sequence[Op]) -> bool:
    """
    Commits the end of a claim, with its lock.

    Args:
        store: the one that took it.
        claim: that ends.
        ops: what else is checked and changed.

    Returns:
        Whether it was done; if not, nothing has changed.
    """
    whole = [*ops, claim.is_mine, Delete(claim.key.lock)]
    while True:
        try:
            return store.commit(whole) is not None
        except UnknownOutcomeError:
            # Only this commit deletes the lock, which this store holds.
            found = store.get(claim.key.lock)
            if found is None or found.version != claim.lock:
                return True


def holder_of(store: RecordStore, key: SegmentKey) -> str | None:
    """
    Returns the name of the slot that has a segment (BK-A58).
    """
    found = store.get(key.lock)
    return None if found is None else decode_form(found.value, found.key).text("worker")
