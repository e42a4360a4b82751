"""
The ends that pystore stored, as truth or as evidence.

While no other program wrote, the stored ends are bounds: no record below may be bad
(A5). After a foreign writer, in a copy, or in another boot they no longer say where the
log ends, but they stay evidence: a log that ends lower, or begins higher, lost records,
unless RocketMQ truncated it (A16).
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.bindings.ffi import NO_OFFSET
from pystore.core.live_page import LiveWords
from pystore.fs.boot import Boot
from pystore.fs.layout import ABORT, CHECKPOINT, META_NAME, SEALS_NAME
from pystore.metastore.schema import (
    BOUNDS,
    CLEAN,
    CUT,
    DISPATCHED,
    EXPORTS,
    FINGERPRINT,
)
from pystore.metastore.transaction import ReadTransaction
from pystore.metastore.values import CleanMark, digest_of
from pystore.recovery.foreign_writer import changed_exports, is_our_abort
from pystore.recovery.state import RecoveryInput
from pystore.recovery.torn_tail import Bound
from pystore.rocketmq.checkpoint_file import CHECKPOINT_BYTES
from pystore.seals import list_seals

__all__ = [
    "OurBounds",
    "bounds_of",
    "clean_mark",
    "is_cut_by_rocketmq",
    "is_page_valid",
    "lost_beginning",
    "stored_end",
]


@dataclass(frozen=True, slots=True)
class OurBounds:
    """
    Valid bounds of pystore.

    Attributes:
        bound: no record below may be bad.
        synced_end: what is certainly durable.
        intent: the offset of an unfinished cut, or ``None``.
        limit: nothing above it belongs to the log; ``NO_OFFSET``: a scan finds the end.
        is_exact: whether the limit is the published end of this boot and mount (A19).
    """

    bound: Bound
    synced_end: int
    intent: int | None
    limit: int
    is_exact: bool


def clean_mark(
    recovery_input: RecoveryInput, view: ReadTransaction
) -> CleanMark | None:
    """
    The clean mark, if it is valid (A9): there is no ``abort`` of another program, the
    last record is unchanged, and the bytes at the end are zero.
    """
    mark, abort = view.read(CLEAN), recovery_input.found.contents[ABORT]
    if mark is None or not (abort is None or is_our_abort(view, abort)):
        return None
    segments = recovery_input.segments
    if mark.end_offset > segments.end or view.read(CUT).intent is not None:
        return None
    if segments.stranded:
        return None
    if any(segments.raw(mark.end_offset, 8)):
        return None
    if mark.last_offset is not None:
        head = int.from_bytes(segments.raw(mark.last_offset, 4), "big")
        record = segments.raw(mark.last_offset, head)
        if digest_of(record) != mark.last_digest:
            return None
    return mark


def bounds_of(recovery_input: RecoveryInput, view: ReadTransaction) -> OurBounds:
    """
    The bounds, if no other program wrote: in the same boot those of the live page,
    otherwise those of LMDB (A5).
    """
    stored = view.read(BOUNDS)
    intent = view.read(CUT).intent
    bound, synced, limit = Bound(stored.synced_end), stored.synced_end, NO_OFFSET
    live = recovery_input.live
    is_exact = live is not None and is_page_valid(live, recovery_input.boot)
    if live is not None and is_exact:
        limit = max(live.published_end, bound.offset)
        bound = Bound(limit, "published end")
        synced = max(live.synced_end, synced)
    if intent is not None:
        bound = Bound(min(bound.offset, intent), bound.name)
        synced = min(synced, intent)
        limit = min(limit, intent)
    return OurBounds(bound, synced, intent, limit, is_exact)


def is_page_valid(live: LiveWords, boot: Boot) -> bool:
    """
    Whether the words of a live page were written in this boot and mount (A4).
    """
    return (live.boot_id, live.mount_id) == (boot.boot_id, boot.mount_id)


def stored_end(recovery_input: RecoveryInput, view: ReadTransaction) -> Bound | None:
    """
    The highest end that pystore stored as synced, whichever program wrote since (A16).

    ``None``: there is none, or a truncation by RocketMQ explains a lower end.
    """
    if is_cut_by_rocketmq(recovery_input, view):
        return None
    claims = [Bound(view.read(BOUNDS).synced_end, "stored synced end")]
    mark = view.read(CLEAN)
    if mark is not None:
        claims.append(Bound(mark.end_offset, "stored clean mark"))
    folder = recovery_input.root / META_NAME / SEALS_NAME
    sealed = list_seals(folder) if folder.is_dir() else []
    size = recovery_input.segments.segment_size
    if sealed:
        claims.append(Bound(max(sealed) + size, "end of the last seal"))
    best = max(claims, key=lambda claim: claim.offset)
    intent = view.read(CUT).intent
    if intent is not None and intent < best.offset:
        best = Bound(intent, "offset of an unfinished cut")
    return best


def is_cut_by_rocketmq(recovery_input: RecoveryInput, view: ReadTransaction) -> bool:
    """
    Whether RocketMQ may have truncated the log, or deleted old segments: it rewrites
    ``checkpoint``, and ``abort``, if pystore left one. A file of zeros, of another
    size, or with one changed bit is damage and explains nothing; nor does an older one:
    RocketMQ lowers no time that it read there.
    """
    found = recovery_input.found
    changed = {line.split(" ")[0] for line in changed_exports(view, found)}
    left_abort = view.read(CLEAN) is None or view.read(DISPATCHED) is not None
    content = found.contents[CHECKPOINT]
    if CHECKPOINT not in changed or (left_abort and ABORT not in changed):
        return False
    if content is None or len(content) != CHECKPOINT_BYTES or not any(content):
        return False
    mark, times = view.read(CLEAN), found.read().times
    if mark is not None and times is not None and times.physic_ms < mark.physic_ms:
        return False
    return not view.read(EXPORTS).is_ours_but_for_a_bit(CHECKPOINT, content)


def lost_beginning(
    recovery_input: RecoveryInput, view: ReadTransaction
) -> tuple[int, int] | None:
    """
    The stored beginning of the log and the present one, if the log begins higher and
    neither a retention nor RocketMQ explains it (A16).
    """
    bases = recovery_input.segments.bases
    left = view.read(FINGERPRINT).segments
    if not bases or not left or view.read(CUT).intent is not None:
        return None
    if bases[0] <= left[0][0] or is_cut_by_rocketmq(recovery_input, view):
        return None
    return left[0][0], bases[0]
