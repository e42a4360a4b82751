"""
Sealing of synced segments, one at a time, in the maintenance thread.

A segment is scanned with all checks before it is sealed, so that no seal contains the
digest of damaged bytes. A replica seals confirmed bytes only: what it may still have to
cut is no evidence against another replica.

Source: A22 (docs/crash-safety.md).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pystore.bindings.ffi import Check
from pystore.errors import CorruptError
from pystore.fs.atomic import remove_file
from pystore.fs.layout import META_NAME, SEALS_NAME, segment_name
from pystore.metastore.schema import EPOCHS, IDENTITY
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity
from pystore.seals import (
    NO_CHAIN,
    list_seals,
    make_seal,
    read_seal,
    seal_name,
    write_seal,
)
from pystore.store.writer import Sealing, Writer

__all__ = [
    "DEFAULT_GROUP",
    "group_of",
    "remove_old_seals",
    "remove_seals",
    "seal_next",
]

DEFAULT_GROUP = "DEFAULT_BROKER"
"""The group of a store without an identity: RocketMQ's default broker name."""

_CHECKS = Check.BODY | Check.PROPERTY | Check.OFFSET


def seal_next(writer: Writer, until: int | None = None) -> bool:
    """
    Seal the oldest full, synced segment without a seal. Any thread may call: one seals,
    and the others have nothing to do meanwhile.

    Args:
        writer: of the store.
        until: seals no segment with a byte at or above it: the confirm offset of a
            replica; ``None``: seals all that is synced.

    Returns:
        Whether a segment was sealed.

    Raises:
        CorruptError: the segment has a bad record.
        StorageError: the system refused.
    """
    if not writer.seals_lock.acquire(blocking=False):
        return False
    try:
        return _seal_next(writer, until)
    finally:
        writer.seals_lock.release()


def _seal_next(writer: Writer, until: int | None) -> bool:
    log, known = writer.log, writer.sealing
    ends = log.ends()
    limit = ends.synced_end if until is None else min(until, ends.synced_end)
    if max(known.end, ends.min_offset) + ends.segment_size > limit:
        # At most times: no look at all segments.
        return False
    if known.bases is None:
        known.bases = set(list_seals(_directory(writer)))
    for base in log.segments():
        end = base + ends.segment_size
        if end > limit:
            return False
        if base not in known.bases and base not in writer.unsealable:
            _seal(writer, base, end)
            known.bases.add(base)
            return True
        known.end = end
    return False


def _seal(writer: Writer, base: int, end: int) -> None:
    log = writer.log
    generation = log.ends().cut_generation
    scan = log.scan(base, end, _CHECKS)
    first_ms = 0
    for rows in scan:
        first_ms = int(rows["store_ms"][0])
        break
    found = scan.finish()
    if found.offset < end:
        writer.unsealable.add(base)
        raise CorruptError(
            f"{writer.root}: segment {segment_name(base)} cannot be sealed: "
            f"{found.text or f'nothing was written at offset {found.offset}'}",
            offset=found.offset,
            path=str(writer.root),
        )
    directory = _directory(writer)
    before = read_seal(directory, base - (end - base)) if base >= end - base else None
    seal = make_seal(
        (block.view for block in log.blocks(base, end)),
        group=group_of(writer),
        start_offset=base,
        record_count=found.records,
        first_store_ms=first_ms,
        last_store_ms=found.record_ms,
        epochs=writer.metastore.read(EPOCHS),
        previous_chain=NO_CHAIN if before is None else before.chain,
    )
    write_seal(directory, seal, writer.temporary)
    writer.monitor.note_sealed(base, found.records)
    if log.ends().cut_generation != generation:
        # The digests may be of bytes before the cut, which removed only older seals.
        remove_seals(writer, base)
    if before is not None and base == log.ends().min_offset:
        remove_old_seals(writer)


def remove_seals(writer: Writer, end: int) -> None:
    """
    Durably remove the seals of segments with a byte at or above ``end``: a cut segment
    is no longer sealed.

    Raises:
        StorageError: the system refused.
    """
    size = writer.log.ends().segment_size
    _remove(writer, lambda base: base + size > end)


def remove_old_seals(writer: Writer) -> None:
    """
    Durably remove the seals of deleted segments. The chain of the first segment goes on
    from the seal before it, which stays until that segment is sealed.

    Raises:
        StorageError: the system refused.
    """
    first, size = writer.log.ends().min_offset, writer.log.ends().segment_size
    is_sealed = (_directory(writer) / seal_name(first)).exists()
    kept = first if is_sealed else first - size
    _remove(writer, lambda base: base < kept)


def _directory(writer: Writer) -> Path:
    return writer.root / META_NAME / SEALS_NAME


def _remove(writer: Writer, is_removed: Callable[[int], bool]) -> None:
    try:
        for base in list_seals(_directory(writer)):
            if is_removed(base):
                remove_file(_directory(writer) / seal_name(base))
    finally:
        writer.sealing = Sealing()


def group_of(writer: Writer) -> str:
    """
    Returns the group that the seals of a store name: its broker.
    """
    identity = writer.metastore.read(IDENTITY)
    if isinstance(identity, TemporaryIdentity):
        identity = identity.identity
    return identity.broker if isinstance(identity, BrokerIdentity) else DEFAULT_GROUP
