"""
Copying a segment from other copies, block by block.

A block is compared with its digest before it is written; if a copy has it no more, the
next one is asked for it. A copy of a file that was interrupted goes on at the block
where it stopped: what is in the file already is compared again.

Source: docs/autorecovery.md, *Patch and install*.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from pystore.core.writeback import start_writeback
from pystore.errors import CorruptError, PystoreError, StorageError
from pystore.fs.atomic import storage_error, sync_descriptor
from pystore.seals import BLOCK_BYTES, block_digest
from pystore.segments.mend_plan import MendStep
from pystore.store.mend import PIECE_BYTES

__all__ = ["ReachCallback", "good_block", "pull_segment"]

ReachCallback = Callable[[int], object]
"""Called with the bytes of each piece that was copied."""


def good_block(step: MendStep, index: int) -> bytes | memoryview:
    """
    Returns a block of the first of the step's sources that gives the right bytes, until
    the next call.

    Raises:
        CorruptError: none does; the text has what each of them says.
    """
    reasons = []
    for source in step.sources:
        try:
            data = source.block(step.base, index)
        except PystoreError as error:
            # Its disk, or the way to it, fails: the next one may have the block.
            reasons.append(f"{source.name}: {error}")
            continue
        if block_digest([data]) == step.digests[index]:
            return data
        reasons.append(f"{source.name}: its block {index} is bad now")
    raise CorruptError(
        "; ".join(reasons), offset=step.base + index * BLOCK_BYTES, path=None
    )


def pull_segment(
    step: MendStep, path: Path, size: int, on_piece: ReachCallback = lambda _: None
) -> None:
    """
    Writes all blocks of a step to a file, which is on disk afterwards.

    Args:
        step: the segment and its sources.
        path: of the file; what an interrupted copy left there counts.
        size: of a segment, in bytes.
        on_piece: hears of the progress, and may wait.

    Raises:
        CorruptError: as `good_block`.
        FullError: no space for the segment; nothing is left.
        StorageError: the system refused.
    """
    try:
        is_new = not path.exists()
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if is_new or os.fstat(file).st_size != size:
                is_new = True
                _allocate(file, path, size)
            for index, digest in enumerate(step.digests):
                at = index * BLOCK_BYTES
                length = min(BLOCK_BYTES, size - at)
                if is_new or block_digest([os.pread(file, length, at)]) != digest:
                    _write(file, good_block(step, index), at, on_piece)
            sync_descriptor(file)
        finally:
            os.close(file)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        # The error of the system does not name the path.
        raise storage_error("pull", path, error) from error


def _allocate(file: int, path: Path, size: int) -> None:
    os.truncate(file, 0)
    try:
        os.posix_fallocate(file, 0, size)
    except OSError:
        # Half of the space helps no other try.
        path.unlink()
        raise


def _write(
    file: int, data: bytes | memoryview, at: int, on_piece: ReachCallback
) -> None:
    view, done = memoryview(data), 0
    while done < len(data):
        size = os.pwrite(file, view[done : done + PIECE_BYTES], at + done)
        start_writeback(file, at + done, size)
        done += size
        on_piece(size)
