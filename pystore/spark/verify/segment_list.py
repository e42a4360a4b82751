"""
The segments of a store, by its directory alone. Segments may be missing.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pystore.fs.atomic import storage_error
from pystore.fs.layout import COMMIT_LOG, SEGMENT_TEMPORARY_NAME, segment_name
from pystore.message.constants import MAGIC_V1, MAGIC_V2

__all__ = ["SegmentList", "list_segments"]

_OFFSET_AT, _HEAD_BYTES = 28, 36
"""Of a record: the offset that it contains. Layout: docs/format.md."""

_NAME = re.compile(r"[0-9]{20}")


@dataclass(frozen=True, slots=True)
class SegmentList:
    """
    The content of ``commitlog/``.

    Attributes:
        segment_size: in bytes, the size of most files; 0: there is no segment.
        bases: base offsets of the segments, ascending.
        odd: size in bytes of each segment that has another size, by base offset.
        orphans: name and problem of each file that is no segment.
    """

    segment_size: int
    bases: tuple[int, ...]
    odd: dict[int, int]
    orphans: tuple[tuple[str, str], ...]

    @property
    def runs(self) -> list[tuple[int, ...]]:
        """
        The segments of the right size in runs without a hole, ascending.
        """
        runs: list[list[int]] = []
        for base in self.bases:
            if base in self.odd:
                continue
            if runs and runs[-1][-1] + self.segment_size == base:
                runs[-1].append(base)
            else:
                runs.append([base])
        return [tuple(run) for run in runs]

    @property
    def is_whole(self) -> bool:
        """
        Whether no segment is missing or odd, so that the log can be opened.
        """
        return len(self.runs) <= 1 and not self.odd and not self.orphans


def list_segments(root: Path) -> SegmentList:
    """
    Lists ``commitlog/``.

    Raises:
        StorageError: the directory cannot be listed.
    """
    folder = root / COMMIT_LOG
    sizes: dict[int, int] = {}
    orphans: list[tuple[str, str]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    status = entry.stat()
                except FileNotFoundError:
                    # Deleted meanwhile, or a broken link.
                    continue
                if entry.name == SEGMENT_TEMPORARY_NAME:
                    continue
                if not _NAME.fullmatch(entry.name):
                    text = "not the name of a segment: move this file away"
                    orphans.append((entry.name, text))
                elif not stat.S_ISREG(status.st_mode):
                    orphans.append((entry.name, "not a file: move it away"))
                else:
                    sizes[int(entry.name)] = status.st_size
    except OSError as error:
        # The caller gets the path with it.
        raise storage_error("list", folder, error) from error
    # Of two equally frequent sizes the larger one: a truncated file is smaller.
    counts = Counter(size for size in sizes.values() if size)
    size = max(counts, key=lambda one: (counts[one], one), default=0)
    for base in sorted(sizes):
        if size and base % size:
            orphans.append(
                (
                    segment_name(base),
                    f"no segment of {size} bytes begins at this offset: the file was "
                    "truncated, or belongs to another log",
                )
            )
            del sizes[base]
    if not size:  # an empty file: the log was never written
        sizes.clear()
    for base in _strays(folder, sorted(sizes), size):
        text = (
            "no record of this offset begins here, and the segments before it are "
            "missing: the file is of another place or log: move it away"
        )
        orphans.append((segment_name(base), text))
        del sizes[base]
    odd = {base: found for base, found in sizes.items() if found != size}
    return SegmentList(size, tuple(sorted(sizes)), odd, tuple(sorted(orphans)))


def _strays(folder: Path, bases: Sequence[int], size: int) -> list[int]:
    """
    The files behind a hole that belong elsewhere: they begin with a record of another
    offset; or with none, and more segments are missing before than there are files.
    """
    strays = []
    for before, base in pairwise(bases):
        if base == before + size:
            continue
        offset = _first_offset(folder / segment_name(base))
        is_far = (base - before) // size > len(bases)
        if offset != base and (offset is not None or is_far):
            strays.append(base)
    return strays


def _first_offset(path: Path) -> int | None:
    """
    The offset that the first record of a segment contains; ``None``: there is no
    record.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        # The check of the segment has the reason.
        return None
    if len(head) < _HEAD_BYTES or int.from_bytes(head[4:8]) not in (MAGIC_V1, MAGIC_V2):
        return None
    return int.from_bytes(head[_OFFSET_AT:_HEAD_BYTES])
