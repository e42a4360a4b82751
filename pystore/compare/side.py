"""
One of two compared stores: where its log begins and ends, and what is whole in it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.row import Proof
from pystore.compare.differing import MISSING, UNREADABLE, DifferingRange
from pystore.compare.report import LogSummary, SideState
from pystore.core.live_page import LivePage
from pystore.damage.segment_walk import SegmentReport, walk_segment
from pystore.errors import CutError, PystoreError
from pystore.fs.layout import require_store, segment_name
from pystore.recovery.foreign_writer import find
from pystore.salvage.pieces import SourcePiece, find_pieces, open_piece
from pystore.store.open_reader import binding_page

__all__ = ["StoreSide"]


class StoreSide:
    """
    A store that is compared. One thread.

    The store is only read, segment by segment, so it may be damaged, and a process may
    write to it.

    Args:
        root: of the store.

    Attributes:
        log: the files of its log.

    Raises:
        NotAStoreError: missing, or not a store.
        StorageError: the system refused.
    """

    def __init__(self, root: Path) -> None:
        require_store(root)
        self._root = root
        self.log = find_pieces(root, may_be_empty=True)
        self._page = self._binding_page()
        self._generation = 0 if self._page is None else self._page.read().cut_generation

    def _binding_page(self) -> LivePage | None:
        try:
            return binding_page(self._root)
        except PystoreError:
            # The check reads the log, which is damaged: the walk finds its end.
            return None

    def summary(self) -> LogSummary:
        """
        Returns the ends and the epochs of the log.

        Raises:
            StorageError: the system refused.
        """
        found = LogSummary(str(self._root), segment_size=self.log.segment_size)
        if self.log.pieces:
            found.min_offset = self.log.pieces[0].start
            found.end_offset, found.tail_reason = self._end()
        try:
            found.epochs = find(self._root).read().epochs
        except PystoreError as error:
            # The bytes are compared nevertheless.
            found.epochs_error = str(error)
        return found

    def _end(self) -> tuple[int, str]:
        """
        The end of the log: the published one, else that of the newest segment with a
        record, and what stands there that is no record.
        """
        if self._page is not None:
            return self._page.read().published_end, ""
        for piece in reversed(self.log.pieces):
            walked = self._walk(piece, _ignore)
            end = walked.end_offset
            if end > piece.start:
                texts = [one.text for one in walked.faults if one.offset == end]
                return end, texts[-1] if texts else ""
        return self.log.pieces[0].start, ""

    def _walk(
        self, piece: SourcePiece, note: Callable[[NDArray[Any]], None]
    ) -> SegmentReport:
        frame = self.log.frame(piece)
        end = frame.base + frame.size
        with open_piece(piece, frame) as (log, _unread):
            return walk_segment(log, piece.start, end, note, uncovered=_none)

    def path_at(self, offset: int) -> str:
        """
        Returns the path of the segment that has an offset, or would have it.
        """
        return str(self.log.folder / segment_name(self.log.base_of(offset)))

    def judge(
        self, ranges: list[DifferingRange], index: int
    ) -> tuple[list[SideState], np.void | None]:
        """
        Returns the state of each range, by the damage model, and the whole record that
        holds the first byte of the first one.

        Args:
            ranges: ascending.
            index: of this store in the ranges' kinds.

        Raises:
            StorageError: the system refused.
        """
        judges = [_RangeJudge(one, one.kinds[index]) for one in ranges]
        for piece in self.log.pieces:
            here = [one for one in judges if one.meets(piece.start, piece.end)]
            if not here:
                continue

            walked = self._walk(piece, partial(_note_all, here))
            for fault in walked.faults:
                for judge in here:
                    judge.fault(fault.offset, fault.skipped_bytes, fault.text)
        return [one.state() for one in judges], judges[0].first if judges else None

    def unchanged(self) -> None:
        """
        Makes sure that the log was not cut meanwhile.

        Raises:
            CutError: it was.
        """
        page = self._page
        if page is not None and page.read().cut_generation != self._generation:
            raise CutError(
                f"{self._root}: the log was cut meanwhile: compare again",
                path=str(self._root),
            )


def _note_all(judges: list[_RangeJudge], rows: NDArray[Any]) -> None:
    for judge in judges:
        judge.note(rows)


def _ignore(_rows: NDArray[Any]) -> None:
    """
    Ignores the rows.
    """


def _none(_rows: NDArray[Any]) -> int:
    return 0


class _RangeJudge:
    """
    The records and the damage that one range meets.
    """

    def __init__(self, found: DifferingRange, kind: str) -> None:
        self._start, self._end = found.start, found.end
        self._kind = kind
        self._records = self._unproved = 0
        self._reason = ""
        self.first: np.void | None = None

    def meets(self, start: int, end: int) -> bool:
        return start < self._end and self._start < end

    def note(self, rows: NDArray[Any]) -> None:
        starts = rows["offset"].astype(np.int64)
        ends = starts + rows["size"]
        met = rows[(starts < self._end) & (ends > self._start)]
        if not len(met):
            return
        proof = met["proof"] & (Proof.PROPERTY | Proof.DIFFERS)
        self._records += len(met)
        self._unproved += int((proof != Proof.PROPERTY).sum())
        if self.first is None and int(met["offset"][0]) <= self._start:
            self.first = met[0].copy()

    def fault(self, offset: int, size: int, text: str) -> None:
        if self.meets(offset, offset + size) and not self._reason:
            self._reason = text or "no record begins here"

    def state(self) -> SideState:
        if self._kind == MISSING:
            return SideState("missing", "no file has it")
        if self._kind == UNREADABLE:
            return SideState("unreadable", "the disk cannot read it")
        if self._reason:
            return SideState("damaged", self._reason)
        if self._unproved:
            return SideState("unproved")
        return SideState("whole" if self._records else "no record")
