"""
Writes bytes of a replica into the segments of a closed store.

Bytes are written in place where the segment is there, block by block, and read again
from the file; a missing or short segment gets a new file. What was there before is kept
beside the store. A file that has another name, as in a copy by hard links, is copied
first: the other name keeps its bytes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from pystore.core.lock import Lock
from pystore.core.results import Block
from pystore.doctor.source import Source
from pystore.errors import StorageError
from pystore.fs.atomic import storage_error, sync_descriptor, sync_directory
from pystore.fs.layout import COMMIT_LOG, segment_name, segment_path, segment_temporary
from pystore.store.mend import write_block

__all__ = ["fill", "patch"]

_BLOCK = 4 << 20


def patch(
    root: Path, lock: Lock, source: Source, part: tuple[int, int], kept: Path
) -> None:
    """
    Writes a range of a replica's log to a store.

    Args:
        root: of the store, which no writer has open.
        lock: of the store, held.
        source: the replica; `Source.refusal` accepted the range.
        part: the start and the end of the range.
        kept: the directory beside the store for the bytes of before.

    Raises:
        PoisonedError: the lock was lost; nothing more is written.
        StorageError: the system refused, or other bytes were read than written.
    """
    size = source.log.ends().segment_size
    at, end = part
    while at < end:
        base = at - at % size
        high = min(end, base + size)
        lock.check()
        path = segment_path(root, base)
        if not path.is_file() or path.stat().st_size != size:
            _install(root, source, base, (at, high), kept)
        else:
            _write(root, _blocks(source, at, high), base, (at, high), kept)
        at = high
    sync_directory(root / COMMIT_LOG)


def _blocks(source: Source, start: int, end: int) -> Iterator[Block]:
    """
    The blocks of a range, and zeros behind the end of the replica's log.
    """
    last = min(end, source.log.ends().published_end)
    if start < last:
        yield from source.log.blocks(start, last, size_max=_BLOCK)
    for at in range(max(start, last), end, _BLOCK):
        yield Block(at, memoryview(bytes(min(_BLOCK, end - at))))


def fill(root: Path, lock: Lock, base: int, block: Block, kept: Path) -> None:
    """
    Writes filler records into a segment.

    Args:
        root: of the store, which no writer has open.
        lock: of the store, held.
        base: of the segment.
        block: the records and their offset.
        kept: as for `patch`.

    Raises:
        PoisonedError, StorageError: as `patch`.
    """
    lock.check()
    part = block.offset, block.offset + len(block.view)
    _write(root, [block], base, part, kept)


def _write(
    root: Path, blocks: Iterable[Block], base: int, part: tuple[int, int], kept: Path
) -> None:
    path = segment_path(root, base)
    try:
        if path.stat().st_nlink > 1:
            _detach(root, path)
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _keep(file, base, part, kept)
        finally:
            os.close(file)
        for block in blocks:
            write_block(path, block.offset - base, memoryview(block.view))
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        # The error of the system does not name the path.
        raise storage_error("patch", path, error) from error


def _install(
    root: Path, source: Source, base: int, part: tuple[int, int], kept: Path
) -> None:
    """
    A new file for a segment: the range, and zeros up to the end of the segment.
    """
    path = segment_path(root, base)
    draft = segment_temporary(root) / segment_name(base)
    size = source.log.ends().segment_size
    try:
        draft.unlink(missing_ok=True)
        file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            os.truncate(file, size)
            low = min(part[0], max(base, source.log.ends().min_offset))
            if path.is_file():
                low = part[0]
                _copy_head(path, file, low - base)
            for block in _blocks(source, low, part[1]):
                write_block(draft, block.offset - base, memoryview(block.view))
            sync_descriptor(file)
        finally:
            os.close(file)
        if os.path.lexists(path):
            _move(path, kept)
        os.link(draft, path)  # nothing that has the name is replaced
        draft.unlink()
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        # As above.
        raise storage_error("install", path, error) from error


def _copy_head(path: Path, file: int, size: int) -> None:
    """
    The bytes of a short segment below the damage.
    """
    with path.open("rb") as old:
        at = 0
        while at < size and (data := old.read(min(_BLOCK, size - at))):
            at += os.pwrite(file, data, at)


def _detach(root: Path, path: Path) -> None:
    draft = segment_temporary(root) / path.name
    draft.unlink(missing_ok=True)
    shutil.copyfile(path, draft)
    shutil.copystat(path, draft)
    with draft.open("rb") as file:
        sync_descriptor(file.fileno())
    draft.replace(path)
    sync_directory(path.parent)


def _keep(file: int, base: int, part: tuple[int, int], kept: Path) -> None:
    """
    Copies the bytes of a range, named by the offset of their first.
    """
    folder = kept / COMMIT_LOG
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / segment_name(part[0])).open("xb") as copy:
        at = part[0] - base
        end = part[1] - base
        while at < end and (data := os.pread(file, min(_BLOCK, end - at), at)):
            at += copy.write(data)
        copy.flush()
        sync_descriptor(copy.fileno())
    sync_directory(folder)


def _move(path: Path, kept: Path) -> None:
    folder = kept / COMMIT_LOG
    folder.mkdir(parents=True, exist_ok=True)
    if folder.stat().st_dev == path.lstat().st_dev:
        path.rename(folder / path.name)
    else:
        shutil.copyfile(path, folder / path.name)
        path.unlink()
    sync_directory(folder)
