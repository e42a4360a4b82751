"""
The cuts of a log by generation, for readers that come back after several of them.

A reader that stopped at an offset continues at the least cut since then. So the history
needs a cut only as long as no later cut is as low: the offsets rise with the
generations. It is stored in ``meta/`` with the intent of a cut, and in the live page
behind its words, where readers find it. The first steps here are pure.

Layout: docs/format.md, live page.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

from pystore.errors import StorageError
from pystore.stored_names import stored

__all__ = ["CUTS_AT", "CutHistory", "read_cuts", "write_cuts"]

CUTS_AT = 1024
"""Position of the history in the live page, in bytes."""

_MAGIC = 0x5053544355545331  # "PSTCUTS1"
_HEAD = struct.Struct("=QIIQQ")  # magic, CRC-32, number of cuts, since, up to
_CUT = struct.Struct("=QQ")
_SIZE = 4096 - CUTS_AT
_CUTS_MAX = 128
_TRIES = 8


@stored
@dataclass(frozen=True, slots=True)
class CutHistory:
    """
    The cuts above a generation.

    Attributes:
        since: the cuts of all later generations are known.
        up_to: the newest generation.
        cuts: generation and offset, both ascending.
    """

    since: int = 0
    up_to: int = 0
    cuts: tuple[tuple[int, int], ...] = ()

    def after(self, generation: int, offset: int) -> CutHistory:
        """
        Returns the history with one more cut.

        Of too many cuts the oldest two become one: the lower offset with the later
        generation, so that a reader continues too low and never too high.
        """
        cuts = [one for one in self.cuts if one[1] < offset]
        cuts.append((generation, offset))
        if len(cuts) > _CUTS_MAX:
            cuts[:2] = [(cuts[1][0], cuts[0][1])]
        return replace(self, up_to=generation, cuts=tuple(cuts))

    def least_since(self, generation: int) -> int | None:
        """
        Returns the least offset of the cuts after a generation.

        Args:
            generation: not below ``since`` and not above ``up_to``.

        Returns:
            ``None``: there was no cut.
        """
        return next((at for number, at in self.cuts if number > generation), None)

    def knows(self, generation: int) -> bool:
        """
        Whether all cuts after a generation are known.
        """
        return self.since <= generation <= self.up_to

    def encode(self) -> bytes:
        """
        Returns the stored form.
        """
        cuts = b"".join(_CUT.pack(*one) for one in self.cuts)
        counts = (len(self.cuts), self.since, self.up_to)
        crc = zlib.crc32(_HEAD.pack(_MAGIC, 0, *counts) + cuts)
        return _HEAD.pack(_MAGIC, crc, *counts) + cuts

    @classmethod
    def decode(cls, stored: bytes) -> CutHistory | None:
        """
        Returns the history of a stored form; ``None``: the bytes are none, or are
        being written.
        """
        if len(stored) < _HEAD.size:
            return None
        magic, _, count, since, up_to = _HEAD.unpack_from(stored)
        end = _HEAD.size + count * _CUT.size
        if magic != _MAGIC or end > len(stored):
            return None
        cuts = tuple(_CUT.iter_unpack(stored[_HEAD.size : end]))
        found = cls(since, up_to, cuts)
        return found if found.encode() == stored[:end] else None


def write_cuts(page: str | os.PathLike[str], history: CutHistory) -> None:
    """
    Writes the history into a live page. Only the writer of the store may call it.

    Args:
        page: path of the file.
        history: of the log.

    Raises:
        StorageError: the system refused.
    """
    try:
        file = os.open(page, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(file, history.encode(), CUTS_AT)
        finally:
            os.close(file)
    except OSError as error:
        # The error of the system does not name the step.
        path = os.fspath(page)
        raise StorageError(f"{path}: cannot write: {error}", path=path) from error


def read_cuts(page: str | os.PathLike[str]) -> CutHistory | None:
    """
    Returns the history in a live page, perhaps while its writer changes it.

    Args:
        page: path of the file.

    Returns:
        ``None``: there is no page, or an older pystore wrote it.
    """
    for _ in range(_TRIES):
        try:
            stored = Path(page).read_bytes()
        except OSError:
            # The reader then compares records.
            return None
        found = CutHistory.decode(stored[CUTS_AT:])
        if found is not None or not any(stored[CUTS_AT : CUTS_AT + _HEAD.size]):
            return found
    return None
