"""
One store that a stream follows: how far it may read now, and whether what it has
read is still there.

Nothing stays open between two looks. Where no live page binds, the end that was
found is kept, and the next search begins there.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pystore.bindings.row import NO_OFFSET, Check
from pystore.core.live_page import LivePage
from pystore.core.log_reader import LogReader
from pystore.core.options import LogOptions
from pystore.errors import (
    CutError,
    NotAStoreError,
    OffsetOutOfRange,
    PystoreError,
    StorageError,
)
from pystore.fs.boot import boot_of
from pystore.fs.layout import ABORT, LIVE_NAME, META_NAME, require_store
from pystore.recovery.segments import Segments
from pystore.rocketmq.abort_file import parse_abort
from pystore.spark.source.offsets import StreamOffset
from pystore.spark.source.record_walk import WalkStep, last_below
from pystore.store.open_reader import binding_page, find_end

__all__ = ["FollowedStore", "StoreSnapshot"]

_ADVICE = (
    "begin with a new checkpoint, or let the stream go on behind what is gone with "
    "failOnDataLoss=false"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """
    A store as of one moment.

    Attributes:
        store: its root.
        log: open for reading while this is looked at.
        min_offset: the first offset that is still there.
        end: of the log.
        top: what a stream may read ends here or below.
        cut_offset: where the log was cut last, or *end* where nobody knows.
        generation: of the log's cuts, if a live page tells it.
    """

    store: str
    log: LogReader
    min_offset: int
    end: int
    top: int
    cut_offset: int
    generation: int | None

    def first(self) -> StreamOffset:
        """
        Where the store begins.
        """
        return StreamOffset(self.min_offset)

    def last(self, start: int, top: int) -> StreamOffset:
        """
        The end of the last record from *start* on that is wholly below *top*.
        """
        return self.mark(last_below(self.log, start, top, self.end))

    def mark(self, step: WalkStep) -> StreamOffset:
        """
        The position that a walk has come to.
        """
        if step.record is None:
            return StreamOffset(step.offset)
        data = self.log.acquire(step.record, step.offset - step.record)
        return StreamOffset(step.offset, step.record, zlib.crc32(data))

    def holds(self, position: StreamOffset) -> bool:
        """
        Whether the log still is the one that was read up to a position.
        """
        if position.offset > self.end:
            return False
        if position.record is None or position.record < self.min_offset:
            return True
        size = position.offset - position.record
        try:
            data = self.log.acquire(position.record, size)
        except PystoreError:
            # Whatever it is, it is not the record that was read.
            return False
        return len(data) == size and zlib.crc32(data) == position.crc

    def resume(self, position: StreamOffset | None, *, fails: bool) -> int:
        """
        Where a stream goes on that has read up to a position.

        Args:
            position: ``None``: the store is new to the stream.
            fails: whether gone records end the stream.

        Raises:
            OffsetOutOfRange: segments were deleted that it had not read.
            CutError: the log was cut below what it has read.
        """
        if position is None:
            return self.min_offset
        start = position.offset
        if start < self.min_offset:
            text = (
                f"{self.store}: the records from offset {start} to {self.min_offset} "
                "were deleted before the stream read them"
            )
            if fails:
                raise OffsetOutOfRange(
                    f"{text}: {_ADVICE}", offset=start, path=self.store
                )
            _log.warning("%s: going on at offset %d", text, self.min_offset)
            return self.min_offset
        if self.holds(position):
            return start
        text = f"{self.store}: the log was cut below offset {start}, which was read"
        if fails:
            raise CutError(f"{text}: {_ADVICE}", offset=start, path=self.store)
        # What was written since the cut is new; where it was, the page may know.
        begin = self.cut_offset if self.cut_offset <= start else self.end
        begin = max(self.min_offset, min(begin, self.end))
        _log.warning("%s: going on at offset %d", text, begin)
        return begin


class FollowedStore:
    """
    A store that a stream looks at again and again. One thread.

    Args:
        root: of the store.
        published: whether to read what the set may still lose.
    """

    def __init__(self, root: Path, *, published: bool) -> None:
        self._root = root
        self._published = published
        self._known: StreamOffset | None = None

    @contextmanager
    def look(self) -> Iterator[StoreSnapshot]:
        """
        Yields what there is now; the log is closed with the block.

        Raises:
            NotAStoreError, StorageError: the store cannot be read.
        """
        require_store(self._root)
        live = binding_page(self._root) or _page_of_starting(self._root)
        store = str(self._root)
        if live is None:
            with LogReader(store) as log:
                end = self._find_end(log)
                log.limit(end)
                yield StoreSnapshot(
                    store, log, log.ends().min_offset, end, end, end, None
                )
            return
        with LogReader(store, LogOptions(), live) as log:
            ends = log.ends()
            end = top = ends.published_end
            # 0: nobody replicates the store, and what is published is all there is.
            if ends.confirm_offset and not self._published:
                top = ends.confirm_offset
            yield StoreSnapshot(
                store,
                log,
                ends.min_offset,
                end,
                top,
                live.read().cut_offset,
                ends.cut_generation,
            )

    def _find_end(self, log: LogReader) -> int:
        """
        The end of the last whole record, from the one that was found before on.
        """
        segments = Segments(log)
        known, limit = self._known, segments.end
        min_offset = segments.bases[0] if segments.bases else 0
        before = StoreSnapshot("", log, min_offset, limit, limit, limit, None)
        if known is not None and known.record is not None and before.holds(known):
            found = log.scan(known.offset, NO_OFFSET, Check.OFFSET).finish()
            newer = [base for base in segments.bases if base > found.offset]
            if not any(any(segments.raw(base, 8)) for base in newer):
                if found.record_start is not None:
                    step = WalkStep(found.record_end, found.record_start, 0)
                    self._known = known = before.mark(step)
                return known.offset
        end, _ = find_end(segments)
        self._known = before.last(min_offset, end)
        return end


def _page_of_starting(root: Path) -> LivePage | None:
    """
    The live page while another pystore writer of this boot opens the store: what it
    promised below its published end still holds, and what a scan would find above
    may yet be cut.
    """
    path = root / META_NAME / LIVE_NAME
    try:
        live = LivePage(path)
        words, boot = live.read(), boot_of(root)
        note = parse_abort((root / ABORT).read_bytes())
    except (NotAStoreError, StorageError, FileNotFoundError):
        # No page, or nobody has the store open: the bytes say how far it goes.
        return None
    is_ours = (words.boot_id, words.mount_id) == (boot.boot_id, boot.mount_id)
    return live if is_ours and note.incarnation else None
