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

from pystore.bindings.row import NO_OFFSET, Check, Stop
from pystore.core.live_page import LivePage
from pystore.core.log_reader import LogReader
from pystore.core.options import LogOptions
from pystore.core.results import Ends
from pystore.core.resync import next_record
from pystore.epochs.table import EpochTable
from pystore.errors import (
    CutError,
    NotAStoreError,
    OffsetOutOfRange,
    PystoreError,
    StorageError,
)
from pystore.fs.atomic import storage_error
from pystore.fs.boot import boot_of
from pystore.fs.cut_history import read_cuts
from pystore.fs.layout import ABORT, LIVE_NAME, META_NAME, require_store
from pystore.recovery.segments import Segments
from pystore.rocketmq.abort_file import parse_abort
from pystore.spark.plan.confirmed import confirmed_end
from pystore.spark.plan.store_files import read_epoch_table
from pystore.spark.source.fork import (
    KeptRecord,
    find_fork,
    holds_record,
    kept_records,
)
from pystore.spark.source.offsets import StreamOffset
from pystore.spark.source.record_walk import WalkStep, last_below
from pystore.store.open_reader import binding_page, find_end, limit_reader

__all__ = ["FollowedStore", "StoreSnapshot"]

_ADVICE = (
    "start with a new checkpoint, or skip the missing records with failOnDataLoss=false"
)

_EPOCHS_MAX = 16
_OPTIONS = LogOptions(serves_ill=True)
_WHOLE = Check.OFFSET | Check.BODY | Check.PROPERTY

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
        generation: of the log's cuts; ``None``: there is no valid live page.
        page: path of that live page.
    """

    store: str
    log: LogReader
    min_offset: int
    end: int
    top: int
    generation: int | None
    page: str | None = None

    def first(self) -> StreamOffset:
        """
        The start of the log.
        """
        return StreamOffset(
            self.min_offset, store=self.store, generation=self.generation
        )

    def last(
        self, start: int, top: int, before: StreamOffset | None = None
    ) -> StreamOffset:
        """
        The end of the last record from *start* on that ends at or below *top*.

        Args:
            start: of a record.
            top: any offset up to the end.
            before: the position at *start*.
        """
        found = last_below(self.log, start, top, self.walk_end(top))
        return self.mark(found, start, before)

    def mark(
        self, step: WalkStep, start: int = 0, before: StreamOffset | None = None
    ) -> StreamOffset:
        """
        The stream offset at the end of a walk.

        Args:
            step: the walk.
            start: of the walk; records of *before* above it are no longer in the log.
            before: the position before the walk.
        """
        if step.record is None and step.offset > self.min_offset:
            # Nothing was walked: the record before it proves the position.
            end = self.walk_end(step.offset)
            found = last_below(self.log, self.min_offset, step.offset, end)
            if found.offset == step.offset or self._is_blank(found.offset, step.offset):
                step = found._replace(offset=step.offset)
        if step.record is None:
            return StreamOffset(
                step.offset, store=self.store, generation=self.generation
            )
        data = self.log.acquire(step.record, step.offset - step.record)
        earlier = () if before is None else _records_of(before)
        table = self.epochs(step.offset).pairs()[-_EPOCHS_MAX:]
        return StreamOffset(
            step.offset,
            step.record,
            zlib.crc32(data),
            self.store,
            self.generation,
            tuple(table),
            kept_records(
                self.log, step.offset, (one for one in earlier if one.end <= start)
            ),
        )

    def _is_blank(self, start: int, end: int) -> bool:
        """
        Whether only the blank record at the end of a segment is between two offsets.
        """
        size = self.log.ends().segment_size
        if (end - self.min_offset) % size or not 8 <= end - start < size:
            return False
        if any(one.offset < end and start < one.end for one in self.log.ill()):
            return False
        return int.from_bytes(self.log.acquire(start, 4)) == end - start

    def epochs(self, end: int) -> EpochTable:
        """
        The epochs of the bytes below an offset.
        """
        try:
            table = read_epoch_table(Path(self.store))
        except (PystoreError, OSError):
            # Without epochs the fork is found by other means.
            table = None
        return EpochTable() if table is None else table.cut_suffix(end)

    def holds(self, stream_offset: StreamOffset) -> bool:
        """
        Whether the log was not cut below a stream offset.
        """
        if stream_offset.offset > self.end:
            return False
        if stream_offset.record is None:
            return not self._was_cut_below(stream_offset)
        if stream_offset.record < self.min_offset:
            return True
        if self.has_lost(stream_offset):
            # Nothing can be proved by it. What is behind it is served.
            return not self._was_cut_below(stream_offset)
        last = KeptRecord(stream_offset.record, stream_offset.offset, stream_offset.crc)
        return holds_record(self.log, last)

    def has_lost(self, stream_offset: StreamOffset) -> bool:
        """
        Whether the record before a stream offset is in an ill range.
        """
        record, end = stream_offset.record, stream_offset.offset
        return record is not None and any(
            one.offset < end and record < one.end for one in self.log.ill()
        )

    def served_end(self, start: int) -> int:
        """
        The offset up to which records can be read from *start* on, without an ill range
        between.
        """
        ahead = (one.offset for one in self.log.ill() if one.end > start)
        return min(self.top, max(start, next(ahead, self.top)))

    def walk_end(self, top: int) -> int:
        """
        The end of the log for a walk up to *top*. In an ill range a batch may end
        anywhere.
        """
        is_ill = any(one.offset < top <= one.end for one in self.log.ill())
        return top if is_ill else self.end

    def lags(self, stream_offset: StreamOffset) -> bool:
        """
        Whether this is another replica than the one that was read, which does not have
        the records below a stream offset yet.
        """
        if stream_offset.store in ("", self.store) or stream_offset.offset <= self.end:
            return False
        newest = EpochTable.of(stream_offset.epochs).last_epoch
        if self.epochs(self.end).last_epoch > newest:
            return False  # a new master: what it does not have is gone
        kept = (one for one in stream_offset.kept if one.end <= self.end)
        last = next(kept, None)
        return (
            last is None
            or last.offset < self.min_offset
            or (holds_record(self.log, last))
        )

    def has_record(self, stream_offset: StreamOffset) -> bool:
        """
        Whether the log has the record before a stream offset.
        """
        is_here = (
            stream_offset.record is not None
            and self.min_offset <= stream_offset.record
            and not self.has_lost(stream_offset)
        )
        return is_here and self.holds(stream_offset)

    def _was_cut_below(self, stream_offset: StreamOffset) -> bool:
        is_same = stream_offset.store in ("", self.store)
        generation = stream_offset.generation if is_same else None
        cuts = None if self.page is None else read_cuts(self.page)
        if generation is None or cuts is None or not cuts.knows(generation):
            return False
        cut = cuts.least_since(generation)
        return cut is not None and cut < stream_offset.offset

    def fork(self, stream_offset: StreamOffset) -> int:
        """
        Where reading goes on, if the log was cut below a stream offset.
        """
        is_same = stream_offset.store in ("", self.store)
        return find_fork(
            self.log,
            stream_offset.offset,
            stream_offset.kept,
            generation=stream_offset.generation if is_same else None,
            # Read now: a cut is in the page before a reader can notice it.
            cuts=None if self.page is None else read_cuts(self.page),
            epochs=(EpochTable.of(stream_offset.epochs), self.epochs(self.end)),
        )

    def resume(self, stream_offset: StreamOffset | None, *, fails: bool) -> int:
        """
        Returns the offset at which a stream continues.

        Args:
            stream_offset: end of what the stream has read; ``None``: the store is new.
            fails: whether missing records end the stream.

        Raises:
            OffsetOutOfRange: segments were deleted before the stream read them.
            CutError: the log was cut below *stream_offset*.
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
        if self.holds(stream_offset) or self.lags(stream_offset):
            return start
        text = f"{self.store}: the log was cut below offset {start}, which was read"
        if fails:
            raise CutError(f"{text}: {_ADVICE}", offset=start, path=self.store)
        begin = self.fork(stream_offset)
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
            with LogReader(store, _OPTIONS) as log:
                limit_reader(self._root, log, self._find_end(log))
                ends = log.ends()
                end = ends.published_end
                top = end if self._published else self._confirmed(ends, is_live=False)
                yield StoreSnapshot(store, log, ends.min_offset, end, top, None)
            return
        with LogReader(store, _OPTIONS, live) as log:
            ends = log.ends()
            end = top = ends.published_end
            if not self._published:
                top = self._confirmed(ends, is_live=True)
            yield StoreSnapshot(
                store,
                log,
                ends.min_offset,
                end,
                top,
                ends.cut_generation,
                live.path,
            )

    def _confirmed(self, ends: Ends, *, is_live: bool) -> int:
        try:
            return confirmed_end(self._root, ends, is_live=is_live)
        except OSError as error:
            # The caller gets the path with it.
            raise storage_error("read", self._root, error) from error

    def _find_end(self, log: LogReader) -> int:
        """
        The end of the last whole record. The scan begins at the last end.

        Another host may see a record before all of its bytes.
        """
        segments = Segments(log)
        known, limit = self._known, segments.end
        min_offset = segments.bases[0] if segments.bases else 0
        before = StoreSnapshot(str(self._root), log, min_offset, limit, limit, None)
        if known is not None and known.record is not None and before.holds(known):
            found = log.scan(known.offset, NO_OFFSET, Check.OFFSET).finish()
            whole = _whole_end(log, known.offset, found.record_end)
            if whole < found.record_end:
                return whole
            newer = [base for base in segments.bases if base > found.offset]
            is_ill = any(one.end > found.offset for one in segments.ill)
            if not is_ill and not any(any(segments.raw(base, 8)) for base in newer):
                if found.record_start is not None:
                    step = WalkStep(found.record_end, found.record_start, 0)
                    self._known = known = before.mark(step)
                return known.offset
        end, _ = find_end(segments)
        base = max((one for one in segments.bases if one < end), default=end)
        end = _whole_end(log, base, end)
        self._known = before.last(min_offset, end)
        return end


def _whole_end(log: LogReader, start: int, end: int) -> int:
    """
    The end of the whole records in a range. A record that fails a check, without
    another one behind it, is not whole yet. Others are damaged, and so is what cannot
    be read: tasks report them.
    """
    while start < end:
        found = log.scan(start, end, _WHOLE).finish()
        if not found.stop.is_bad:
            return end
        if found.stop is Stop.UNREADABLE:
            start = next(one.end for one in log.ill() if one.end > found.offset)
            continue
        behind = next_record(log, found, end)
        if behind is None or behind >= end:
            return found.offset
        start = behind
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


def _records_of(before: StreamOffset) -> tuple[KeptRecord, ...]:
    """
    The records that a position knows, the newest first.
    """
    if before.record is None:
        return before.kept
    return (KeptRecord(before.record, before.offset, before.crc), *before.kept)
