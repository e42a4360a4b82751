"""
One store that a stream follows: the end that it may read up to, and a check that the
records that it has read are still there.

No file stays open between two snapshots. Without a valid live page the end is found by
a scan, and the next scan begins at the last end.
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
    "start with a new checkpoint, or skip the missing records with failOnDataLoss=false"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """
    The state of a store at one moment.

    Attributes:
        store: root of the store.
        log: open for reading until `FollowedStore.snapshot` ends.
        min_offset: first offset of the log.
        end: of the log.
        top: a stream may read up to here.
        cut_offset: offset of the last cut, or *end* if it is not known.
        generation: of the log's cuts; ``None``: there is no valid live page.
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
        The start of the log.
        """
        return StreamOffset(self.min_offset)

    def last(self, start: int, top: int) -> StreamOffset:
        """
        The end of the last record from *start* on that ends at or below *top*.
        """
        return self.mark(last_below(self.log, start, top, self.end))

    def mark(self, step: WalkStep) -> StreamOffset:
        """
        The stream offset at the end of a walk.
        """
        if step.record is None:
            return StreamOffset(step.offset)
        data = self.log.acquire(step.record, step.offset - step.record)
        return StreamOffset(step.offset, step.record, zlib.crc32(data))

    def holds(self, stream_offset: StreamOffset) -> bool:
        """
        Whether the log was not cut below a stream offset.
        """
        if stream_offset.offset > self.end:
            return False
        if stream_offset.record is None or stream_offset.record < self.min_offset:
            return True
        size = stream_offset.offset - stream_offset.record
        try:
            data = self.log.acquire(stream_offset.record, size)
        except PystoreError:
            # An unreadable record is not the record that was read.
            return False
        return len(data) == size and zlib.crc32(data) == stream_offset.crc

    def resume(self, stream_offset: StreamOffset | None, *, fails: bool) -> int:
        """
        Returns the offset at which a stream continues.

        Args:
            stream_offset: end of what the stream has read; ``None``: the store is new.
            fails: whether missing records end the stream.

        Raises:
            OffsetOutOfRange: segments were deleted before the stream read them.
            CutError: the log was cut below *position*.
        """
        if stream_offset is None:
            return self.min_offset
        start = stream_offset.offset
        if start < self.min_offset:
            text = (
                f"{self.store}: the records from offset {start} to {self.min_offset} "
                "were deleted before the stream read them"
            )
            if fails:
                raise OffsetOutOfRange(
                    f"{text}: {_ADVICE}", offset=start, path=self.store
                )
            _log.warning("%s: continuing at offset %d", text, self.min_offset)
            return self.min_offset
        if self.holds(stream_offset):
            return start
        text = f"{self.store}: the log was cut below offset {start}, which was read"
        if fails:
            raise CutError(f"{text}: {_ADVICE}", offset=start, path=self.store)
        # Records written since the cut are new. The live page may have its offset.
        begin = self.cut_offset if self.cut_offset <= start else self.end
        begin = max(self.min_offset, min(begin, self.end))
        _log.warning("%s: continuing at offset %d", text, begin)
        return begin


class FollowedStore:
    """
    A store of a stream. One thread.

    Args:
        root: of the store.
        published: whether to read up to the published end, above the confirm offset.
    """

    def __init__(self, root: Path, *, published: bool) -> None:
        self._root = root
        self._published = published
        self._known: StreamOffset | None = None

    @contextmanager
    def snapshot(self) -> Iterator[StoreSnapshot]:
        """
        Opens the log, and yields the current state of the store.

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
            # 0: the store has no replicas, and is read up to the published end.
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
        The end of the last whole record. The scan begins at the last end.
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
    The live page while a pystore writer of this boot opens the store.

    Records below its published end stay. Records above it may still be cut.
    """
    path = root / META_NAME / LIVE_NAME
    try:
        live = LivePage(path)
        words, boot = live.read(), boot_of(root)
        note = parse_abort((root / ABORT).read_bytes())
    except (NotAStoreError, StorageError, FileNotFoundError):
        # No page, or no writer: a scan finds the end.
        return None
    is_ours = (words.boot_id, words.mount_id) == (boot.boot_id, boot.mount_id)
    return live if is_ours and note.incarnation else None
