"""
Saving bytes before they are removed (A6, A17).

An opening removes bytes above the end of the log: a torn tail, stale records, what
``recover --accept-loss`` gives up. If whole records are among them, every byte above
the end is first copied to a directory beside the store, and the offsets of these
records are listed. Nothing whole is lost in silence.
"""

from __future__ import annotations

import errno
import os
import shutil
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pystore.core.resync import next_record
from pystore.damage.segment_walk import CHECKS
from pystore.errors import CorruptError, FullError
from pystore.fs.atomic import storage_error, sync_descriptor, sync_directory
from pystore.fs.layout import segment_name, segment_path
from pystore.recovery.plan import RecoveryPlan
from pystore.recovery.segments import Segments, data_end, search_end
from pystore.recovery.torn_tail import Torn, Whole
from pystore.stored_names import stored

__all__ = ["LOSS_MAX", "Loss", "save_cut", "save_loss", "whole_records"]

LOSS_MAX = 64 << 20
"""An opening saves at most so many bytes without the consent of its caller."""

_OTHER_PLACE = "another place: `pystore recover --save-to DIR`"
_CHUNK = 1 << 22
_SPLIT_COPY = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
"""The kernel cannot copy between these files: another file system, or an old one."""


@stored
@dataclass(frozen=True, slots=True)
class Loss:
    """
    The saved bytes of a loss.

    Attributes:
        directory: with one file for each segment, named by the offset of its first
            byte.
        bytes_saved: their number, without trailing zeros.
        records: offsets of whole records after the damage, ascending; eight bytes
            each, since there may be millions.
    """

    directory: Path
    bytes_saved: int
    records: Sequence[int]


def save_cut(
    root: Path,
    segments: Segments,
    made: RecoveryPlan,
    *,
    save_to: Path | None = None,
    is_consented: bool = False,
) -> Loss | None:
    """
    Saves what an opening is about to remove, if it holds a whole record, or if no zero
    sector proves that the last record was never written whole (A17).

    Bytes that were never published (A19), and those of a cut that was ordered before
    (A3), are not saved.

    Args:
        root: the store.
        segments: of its log.
        made: the plan of the opening.
        save_to: the directory that gets the copy; ``None``: beside the store.
        is_consented: whether more than `LOSS_MAX` bytes may be saved.

    Raises:
        CorruptError: the loss is larger; nothing was changed.
        FullError, StorageError: as `save_loss`.
    """
    end = made.end_offset
    is_ordered = made.is_exact or made.intent is not None or made.rule == "A3"
    if not made.cut_bytes or (is_ordered and made.corrupt is None):
        return None
    first = next(whole_records(segments, end), None)
    verdict = made.survey.verdict
    is_proved = isinstance(verdict, Torn) and verdict.has_lost_sector
    if first is None and (is_proved or isinstance(verdict, Whole)):
        return None
    if made.cut_bytes > LOSS_MAX and not is_consented and save_to is None:
        raise CorruptError(
            f"{root}: opening would remove {made.cut_bytes} bytes above offset {end}, "
            f"which may hold whole records ({made.cut_reason}, rule {made.rule}): "
            "name a directory for them with `pystore recover --save-to DIR`",
            offset=end,
            path=str(root),
        )
    return save_loss(root, segments, end, save_to)


def save_loss(
    root: Path, segments: Segments, end: int, save_to: Path | None = None
) -> Loss:
    """
    Copy all bytes above ``end`` to a new directory, durably and in bounded memory.

    Args:
        root: the store.
        segments: of its log.
        end: of the log after the cut.
        save_to: the parent of the new directory; ``None``: that of the store.

    Raises:
        FullError: no space; the store is unchanged.
        StorageError: the system refused.
    """
    directory = _create(root, end, save_to)
    try:
        records, ends = array("q"), dict[int, int]()
        for offset, record_end in whole_records(segments, end):
            records.append(offset)
            ends[offset // segments.segment_size] = record_end
        saved = _save(directory, root, segments, end, ends)
    except BaseException as error:
        # An incomplete copy is of no use.
        shutil.rmtree(directory, ignore_errors=True)
        if isinstance(error, FullError):
            text = f"{error} ({_OTHER_PLACE})"
            raise FullError(text, errno=error.errno, path=error.path) from error
        raise
    return Loss(directory, saved, records)


def _create(root: Path, end: int, save_to: Path | None) -> Path:
    place = root.absolute()
    parent = place.parent if save_to is None else save_to
    name, number = f"{place.name}.lost-{end:020d}", 1
    while True:
        directory = parent / (name if number == 1 else f"{name}-{number}")
        try:
            directory.mkdir(parents=save_to is not None)
        except FileExistsError:
            # An earlier loss at the same offset keeps its directory.
            number += 1
        except OSError as error:
            # The error of the system does not name the path.
            text = f"{directory} ({_OTHER_PLACE})"
            raise storage_error("create", Path(text), error) from error
        else:
            return directory


def _save(
    directory: Path,
    root: Path,
    segments: Segments,
    end: int,
    ends: dict[int, int],
) -> int:
    # A record may end with zeros: `ends` has the end of the last whole one, by segment.
    saved, size = 0, segments.segment_size
    for base in segments.bases:
        at = max(end, base)
        if at >= base + size:
            continue
        count = max(data_end(segments, at), ends.get(base // size, 0)) - at
        if count:
            path = segment_path(root, base)
            _copy(path, directory / segment_name(at), at - base, count)
            saved += count
    sync_directory(directory)
    sync_directory(directory.parent)
    return saved


def whole_records(segments: Segments, offset: int) -> Iterator[tuple[int, int]]:
    """
    Yields offset and end of the whole records from ``offset`` on, ascending.

    They are found by their magic, where the chain of sizes is broken. A whole record
    contains its own offset.
    """
    log = segments.log
    for base in segments.bases:
        at = max(offset, base)
        if at >= base + segments.segment_size:
            continue
        written = data_end(segments, at)
        limit = search_end(segments, at, written)
        found: int | None = at
        while found is not None and found < written:
            scan = log.scan(found, limit, CHECKS)
            for rows in scan:
                ends = rows["offset"] + rows["size"]
                yield from zip(rows["offset"].tolist(), ends.tolist(), strict=True)
            stop = scan.cursor
            found = next_record(log, stop, limit) if stop.offset < written else None


def _copy(source: Path, target: Path, at: int, size: int) -> None:
    """
    Copies a range, by the kernel where it can: some file systems share the blocks.
    """
    try:
        reader = os.open(source, os.O_RDONLY)
        writer = -1
        try:
            writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            end = at + size
            while at < end:
                at += _copy_piece(reader, writer, at, min(_CHUNK, end - at), target)
            sync_descriptor(writer)
        finally:
            os.close(reader)
            if writer >= 0:
                os.close(writer)
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("save", target, error) from error


def _copy_piece(reader: int, writer: int, at: int, size: int, target: Path) -> int:
    try:
        copied = os.copy_file_range(reader, writer, size, offset_src=at)
    except OSError as error:
        if error.errno not in _SPLIT_COPY:
            raise
        copied = os.write(writer, os.pread(reader, size, at))
    if not copied:
        raise OSError(errno.EIO, "the file ended early", str(target))
    return copied
