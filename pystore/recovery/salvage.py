"""
Saving bytes before a cut that loses promised records (A6).

``recover --accept-loss`` cuts the log at the damage. Thousands of good records may
follow: every byte above the cut is copied to a directory beside the store, and the
offsets of the valid records in it are listed.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from pystore.bindings.ffi import Check
from pystore.core.scan import check_record
from pystore.errors import CorruptError, InvalidError
from pystore.fs.atomic import storage_error, sync_descriptor, sync_directory
from pystore.fs.layout import segment_name
from pystore.message.constants import MAGIC_V1, MAGIC_V2
from pystore.recovery.segments import Segments
from pystore.stored_names import stored

__all__ = ["Loss", "save_loss", "whole_records"]

_MAGIC = re.compile(
    b"|".join(re.escape(magic.to_bytes(4)) for magic in (MAGIC_V1, MAGIC_V2))
)
_PROOF = Check.BODY | Check.PROPERTY | Check.OFFSET
_CHUNK = 1 << 22


@stored
@dataclass(frozen=True, slots=True)
class Loss:
    """
    The saved bytes of a loss.

    Attributes:
        directory: with one file for each segment, named by the offset of its first
            byte.
        bytes_saved: their number, without trailing zeros.
        records: offsets of whole records after the damage, ascending.
    """

    directory: Path
    bytes_saved: int
    records: tuple[int, ...]


def save_loss(root: Path, segments: Segments, end: int) -> Loss:
    """
    Copy all bytes above ``end`` to a directory beside the store, durably.

    Args:
        root: the store.
        segments: of its log.
        end: of the log after the cut.

    Raises:
        InvalidError: the directory exists.
        FullError: no space; the store is unchanged.
        StorageError: the system refused.
    """
    directory = root.parent / f"{root.name}.lost-{end:020d}"
    try:
        directory.mkdir()
    except FileExistsError as error:
        # From a killed run, or an earlier loss at the same offset.
        raise InvalidError(
            f"{directory} exists: inspect it, move it away, then try again",
            path=str(directory),
        ) from error
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("create", directory, error) from error
    try:
        loss = _save(directory, segments, end)
    except BaseException:
        # An incomplete copy would stop the next attempt.
        shutil.rmtree(directory, ignore_errors=True)
        raise
    return loss


def _save(directory: Path, segments: Segments, end: int) -> Loss:
    saved, records = 0, []
    for base in segments.bases:
        at = max(end, base)
        left = base + segments.segment_size - at
        if left <= 0:
            continue
        data = segments.raw(at, left).rstrip(b"\0")
        if data:
            _write(directory / segment_name(at), data)
            saved += len(data)
            records.extend(whole_records(data, at))
    sync_directory(directory)
    sync_directory(directory.parent)
    return Loss(directory, saved, tuple(records))


def whole_records(data: bytes, offset: int) -> list[int]:
    """
    Offsets of the valid records in ``data``.

    They are found by their magic, where the chain of sizes is broken. A valid record
    contains its own offset.

    Args:
        data: any bytes of a log.
        offset: of the first of them.
    """
    found = []
    at = 0
    while match := _MAGIC.search(data, at + 4):
        start = match.start() - 4
        try:
            size = int.from_bytes(data[start : start + 4], "big")
            record = check_record(data[start : start + size], offset + start, _PROOF)
        except CorruptError:
            # No record; search after these bytes.
            at = start + 1
        else:
            found.append(offset + start)
            at = start + record.size
    return found


def _write(path: Path, data: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest[:_CHUNK]) :]
            sync_descriptor(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("save", path, error) from error
