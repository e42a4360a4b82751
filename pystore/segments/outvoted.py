"""
A whole copy of a segment that is replaced all the same: the majority of the copies of
its set has other bytes.

Source: AR-R8; docs/autorecovery.md, *The worker*.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pystore.fs.atomic import storage_error, sync_directory
from pystore.fs.layout import META_NAME, SEALS_NAME
from pystore.seals import Seal, seal_name
from pystore.segments.copy import CopyFacts, LogCopy, block_count
from pystore.segments.order import segment_digest

__all__ = ["OutvotedCopy", "remove_seal", "whole_digest"]


class OutvotedCopy:
    """
    A copy of a log, of which one segment counts as if there were no file. For one
    thread.

    Args:
        copy: the whole one.
        base: of the segment.
    """

    def __init__(self, copy: LogCopy, base: int) -> None:
        self._copy = copy
        self._base = base

    @property
    def name(self) -> str:
        """
        As `LogCopy.name`.
        """
        return self._copy.name

    @property
    def facts(self) -> CopyFacts:
        """
        As `LogCopy.facts`.
        """
        return self._copy.facts

    def problem(self, base: int) -> str:
        """
        As `LogCopy.problem`.
        """
        if base == self._base:
            return "the majority of the copies has other bytes"
        return self._copy.problem(base)

    def seal(self, base: int) -> Seal | None:
        """
        As `LogCopy.seal`.
        """
        return None if base == self._base else self._copy.seal(base)

    def block(self, base: int, index: int) -> bytes | memoryview:
        """
        As `LogCopy.block`.
        """
        return self._copy.block(base, index)

    def digests(self, base: int, indexes: Iterable[int]) -> dict[int, int | None]:
        """
        As `LogCopy.digests`.
        """
        return self._copy.digests(base, indexes)

    def damaged_blocks(self, base: int) -> set[int]:
        """
        As `LogCopy.damaged_blocks`.
        """
        return self._copy.damaged_blocks(base)


def whole_digest(copy: LogCopy, base: int) -> str:
    """
    Returns the `segment_digest` of the bytes that a copy has on disk; empty: a block
    cannot be read.
    """
    count = block_count(copy.facts.segment_size)
    found = list(copy.digests(base, range(count)).values())
    whole = [one for one in found if one is not None]
    return segment_digest(whole) if len(whole) == count else ""


def remove_seal(root: Path, base: int) -> None:
    """
    Removes the seal of a segment of a store, before other bytes come: it tells those
    that were there. Fine if there is none; the store seals the segment again.

    Raises:
        StorageError: the system refused.
    """
    directory = root / META_NAME / SEALS_NAME
    path = directory / seal_name(base)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("remove", path, error) from error
    sync_directory(directory)
