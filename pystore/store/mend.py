"""
Mending a store that is open for writing, while appends and reads go on.

Damaged blocks are written in place: a writer, its links and every reader have the file
mapped, and see the right bytes at once; a crash leaves a block that is bad as before. A
whole file goes in only where there is none that can be read, or before the first
segment. Then the core swaps its mapping, which a rename alone would not.

A segment before the first one belongs to the log step by step, and no reader sees it
before the last step: queue entries, epochs, seal, the name of the file, the beginning.
After a crash the next opening finds the segment with all that belongs to it, or a log
that begins where it did; what was prepared is of records below it, and is made again.

Rules: A2, A16, A22 (docs/crash-safety.md); docs/autorecovery.md, patch and install.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pystore.consumequeue.queues import ConsumeQueues
from pystore.epochs.table import EpochTable
from pystore.errors import (
    CorruptError,
    InvalidError,
    OffsetOutOfRange,
    StorageError,
)
from pystore.fs.atomic import storage_error
from pystore.fs.disk_read import read_disk
from pystore.fs.layout import (
    META_NAME,
    PULL_SUFFIX,
    SEALS_NAME,
    queue_temporary,
    segment_name,
    segment_path,
    segment_temporary,
)
from pystore.metastore.schema import EPOCHS
from pystore.seals import Seal, block_digest, write_seal
from pystore.store.dispatch import note_queues
from pystore.store.prepend import prepend_entries
from pystore.store.sealer import group_of
from pystore.store.writer import Sealing, Writer

__all__ = [
    "GoodBlock",
    "PulledSegment",
    "forget_pulled",
    "install_before",
    "install_within",
    "keep_aside",
    "patch",
    "pulled_path",
    "write_block",
]

PIECE_BYTES = 256 << 10
"""Of one write: larger ones delay the syncs of appends."""


class GoodBlock(NamedTuple):
    """
    Bytes that replace damaged ones.

    Attributes:
        offset: in the log; the block lies in one segment.
        data: the bytes.
        digest: XXH3-64 of them, as a seal or another copy proves it.
    """

    offset: int
    data: bytes | memoryview
    digest: int


class PulledSegment(NamedTuple):
    """
    A whole segment, under the name of `pulled_path`.

    Attributes:
        base: its first offset.
        epochs: of the replica that it came from, exactly as that one has them.
        seal: of that replica; ``None``: it is sealed here.
    """

    base: int
    epochs: EpochTable
    seal: Seal | None = None


def pulled_path(root: Path, base: int) -> Path:
    """
    Returns where a segment is written before it is installed.
    """
    return segment_temporary(root) / f"{segment_name(base)}{PULL_SUFFIX}"


def forget_pulled(root: Path, base: int) -> None:
    """
    Removes what a repair copied of a segment that it needs no more. Idempotent.

    Raises:
        StorageError: the system refused.
    """
    path = pulled_path(root, base)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("remove", path, error) from error


def patch(writer: Writer, blocks: Iterable[GoodBlock]) -> int:
    """
    Writes blocks over damaged ones, each after its bytes were compared with its digest,
    and reads each again from the disk. Any thread; blocks.

    Args:
        writer: of the open store.
        blocks: of segments whose files are there, below the synced end.

    Returns:
        The number of blocks.

    Raises:
        CorruptError: bytes are not those of their digest; nothing of the block was
            written.
        OffsetOutOfRange: retention deleted the segment, or a cut removed it.
        InvalidError: the file is missing or short: install the segment.
        StorageError: the system refused, or other bytes are read than were written.
    """
    count = 0
    for block in blocks:
        if block_digest([block.data]) != block.digest:
            raise CorruptError(
                f"{writer.root}: the bytes for offset {block.offset} are not those of "
                "their digest: take them from another copy",
                offset=block.offset,
                path=str(writer.root),
            )
        with writer.mending:
            path, at = _place(writer, block)
            write_block(path, at, memoryview(block.data))
        writer.unsealable.discard(block.offset - at)
        count += 1
    return count


def _place(writer: Writer, block: GoodBlock) -> tuple[Path, int]:
    """
    The file of a block and the position in it; the lock against cuts is held.
    """
    writer.log.check_guard()
    ends = writer.log.ends()
    size, end = ends.segment_size, block.offset + len(block.data)
    at = block.offset % size
    base = block.offset - at
    if not ends.min_offset <= block.offset < end <= ends.synced_end:
        raise OffsetOutOfRange(
            f"{writer.root}: bytes {block.offset} to {end} cannot be patched: the log "
            f"is on disk from {ends.min_offset} to {ends.synced_end}",
            offset=block.offset,
            path=str(writer.root),
        )
    path = segment_path(writer.root, base)
    try:
        found = path.stat()
    except OSError as error:
        # Missing, or its directory cannot be read: the caller names what to do.
        raise _not_whole(path, base, str(error.strerror)) from error
    if at + len(block.data) > size or found.st_size != size:
        raise _not_whole(path, base, f"it has {found.st_size} bytes, and not {size}")
    if found.st_nlink > 1:
        raise _not_whole(path, base, "another store shares the file by a hard link")
    return path, at


def _not_whole(path: Path, base: int, reason: str) -> InvalidError:
    return InvalidError(
        f"{path}: cannot be patched: {reason}: install a whole segment",
        offset=base,
        path=str(path),
    )


def write_block(path: Path, at: int, data: memoryview) -> None:
    """
    Writes a block into a file, syncs it, and compares what the disk has then.

    Args:
        path: of the file, which is there.
        at: the position.
        data: the bytes.

    Raises:
        StorageError: the system refused, or other bytes are read than were written.
    """
    try:
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(file, data[done : done + PIECE_BYTES], at + done)
            os.fdatasync(file)
        finally:
            os.close(file)
        found = read_disk(path, at, len(data))
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("patch", path, error) from error
    if found != data:
        raise StorageError(
            f"{path}: other bytes are read at {at} than were written: replace the disk",
            path=str(path),
        )


def install_within(writer: Writer, base: int, kept: Path | None = None) -> None:
    """
    Gives a segment of the log the pulled file. The damaged file, if there is one, gets
    another name first.

    Args:
        writer: of the open store.
        base: of the segment.
        kept: the directory for the damaged file, on the same file system; ``None``: it
            goes.

    Raises:
        OffsetOutOfRange: retention deleted the segment.
        InvalidError: as `pystore.core.log_writer.LogHandle.install`.
        StorageError: the system refused.
    """
    path = segment_path(writer.root, base)
    with writer.mending:
        begin = writer.log.ends().min_offset
        if base < begin:
            # It would become the first one again, without its queue entries.
            raise OffsetOutOfRange(
                f"{path}: cannot be installed: the log begins at {begin}",
                offset=base,
                path=str(path),
            )
        if kept is not None:
            keep_aside(path, kept)
        writer.log.install(base)
    writer.unsealable.discard(base)
    writer.sealing = Sealing()


def keep_aside(path: Path, kept: Path) -> None:
    """
    Gives a damaged file a second name, or copies it to another file system; without a
    file there is nothing to keep.

    Args:
        path: of the file.
        kept: a directory, made if it is missing.

    Raises:
        StorageError: the system refused, or the file cannot be read to be copied.
    """
    if not os.path.lexists(path):
        return
    try:
        kept.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, kept / path.name, follow_symlinks=False)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            # The log is on another file system.
            shutil.copyfile(path, kept / path.name)
    except OSError as error:
        # The error of the system does not name the directory.
        raise storage_error(f"keep {path} in", kept, error) from error


def install_before(
    writer: Writer, queues: ConsumeQueues, pulled: PulledSegment
) -> None:
    """
    Puts a pulled segment before the first one of the log. The caller holds the lock of
    the queues.

    Args:
        writer: of the open store.
        queues: of the store.
        pulled: the segment that ends where the log begins.

    Raises:
        InvalidError: it is not the segment before the first one.
        CorruptError: a record of it is bad.
        FullError: no space; install it again later.
        StorageError: the system refused; likewise.
    """
    base, ends = pulled.base, writer.log.ends()
    if base + ends.segment_size != ends.min_offset:
        raise InvalidError(
            f"{writer.root}: segment {segment_name(base)} does not end where the log "
            f"begins, at {ends.min_offset}",
            offset=base,
            path=str(writer.root),
        )
    path = pulled_path(writer.root, base)
    with queue_temporary(writer.root) as temporary:
        prepend_entries(writer, queues, base, path, temporary)
    queues.sync()
    with writer.metastore.change() as change:
        table = epochs_below(pulled.epochs, change.read(EPOCHS), ends.min_offset)
        change.replace_epochs(table)
    writer.export_epochs(table)
    if pulled.seal is not None:
        seal = replace(pulled.seal, group=group_of(writer))
        write_seal(writer.root / META_NAME / SEALS_NAME, seal, writer.temporary)
    with writer.mending:
        writer.log.install(base)
    writer.sealing = Sealing()
    note_queues(writer, queues)


def epochs_below(source: EpochTable, own: EpochTable, begin: int) -> EpochTable:
    """
    Returns the own epochs with those of a source that began below the log's beginning.

    Args:
        source: of a replica with a consistent history.
        own: of the log.
        begin: of the log.
    """
    below = [one for one in source.entries if one.start_offset < begin]
    newest = below[-1].epoch if below else -1
    return EpochTable((*below, *(one for one in own.entries if one.epoch > newest)))
