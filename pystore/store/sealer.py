"""
Sealing of synced segments, one at a time, in the maintenance thread.

A segment is scanned with all checks before it is sealed, so that no seal contains the
digest of damaged bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from pystore.store.writer import Writer

__all__ = ["DEFAULT_GROUP", "remove_seals", "seal_next"]

DEFAULT_GROUP = "DEFAULT_BROKER"
"""The group of a store without an identity: RocketMQ's default broker name."""

_CHECKS = Check.BODY | Check.PROPERTY | Check.OFFSET


def seal_next(writer: Writer) -> bool:
    """
    Seal the oldest full, synced segment without a seal.

    Returns:
        Whether a segment was sealed.

    Raises:
        CorruptError: the segment has a bad record.
        StorageError: the system refused.
    """
    log = writer.log
    ends = log.ends()
    directory = writer.root / META_NAME / SEALS_NAME
    sealed = set(list_seals(directory))
    for base in log.segments():
        end = base + ends.segment_size
        if base in sealed or base in writer.unsealable:
            continue
        if end > ends.synced_end:
            return False
        _seal(writer, base, end)
        return True
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
    if found.stop.is_bad:
        writer.unsealable.add(base)
        raise CorruptError(
            f"{writer.root}: segment {segment_name(base)} cannot be sealed: "
            f"{found.text}",
            offset=found.offset,
            path=str(writer.root),
        )
    directory = writer.root / META_NAME / SEALS_NAME
    before = read_seal(directory, base - (end - base)) if base >= end - base else None
    seal = make_seal(
        (block.view for block in log.blocks(base, end)),
        group=_group(writer),
        start_offset=base,
        record_count=found.records,
        first_store_ms=first_ms,
        last_store_ms=found.record_ms,
        epochs=writer.metastore.read(EPOCHS),
        previous_chain=NO_CHAIN if before is None else before.chain,
    )
    write_seal(directory, seal, writer.temporary)
    if log.ends().cut_generation != generation:
        # The digests may be of bytes before the cut, which removed only older seals.
        remove_seals(writer.root, base, end - base)


def remove_seals(root: Path, end: int, segment_size: int) -> None:
    """
    Durably remove the seals of segments with a byte at or above ``end``: a cut segment
    is no longer sealed.

    Raises:
        StorageError: the system refused.
    """
    directory = root / META_NAME / SEALS_NAME
    for base in list_seals(directory):
        if base + segment_size > end:
            remove_file(directory / seal_name(base))


def _group(writer: Writer) -> str:
    identity = writer.metastore.read(IDENTITY)
    if isinstance(identity, TemporaryIdentity):
        identity = identity.identity
    return identity.broker if isinstance(identity, BrokerIdentity) else DEFAULT_GROUP
