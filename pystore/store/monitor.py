"""
The health of an open store, and the events that tell of its changes.

A state that lasts, such as a failing maintenance, is one event when it begins and one
when it ends, however often it is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from pystore.clocks import clock_ms, wall_ms
from pystore.errors import CorruptError, PoisonedError
from pystore.events import (
    DamageFound,
    EventSink,
    LogCut,
    LogSynced,
    MaintenanceFailed,
    MaintenanceResumed,
    SegmentsDeleted,
    SegmentSealed,
    StoreClosed,
    StoreEvent,
    StoreOpened,
    StorePoisoned,
    StoreRecovered,
    StrandedSegmentsRemoved,
    log_event,
)
from pystore.events.event import hand_over
from pystore.fs.layout import segment_name
from pystore.stored_names import public

if TYPE_CHECKING:
    from pystore.core.results import Ends
    from pystore.store.report import RecoveryReport

__all__ = ["Health", "Monitor"]


@public
@dataclass(frozen=True, slots=True)
class Health:
    """
    The state of a store that is open for writing.

    Attributes:
        is_poisoned: a write-back failed: close the store and open it again.
        kept_ms: when the maintenance succeeded last, ms since 1970; ``None``: not yet.
        keep_error: class and text of the error of the last maintenance; ``None``: it
            succeeded.
        unsynced_bytes: acknowledged bytes that a power cut would take.
        sync_age_ms: for how long there have been unsynced bytes, or longer; 0: there
            are none.
        undispatched_bytes: bytes of records without queue entries; ``None``: a log
            without queues.
    """

    is_poisoned: bool
    kept_ms: int | None
    keep_error: str | None
    unsynced_bytes: int
    sync_age_ms: int
    undispatched_bytes: int | None

    @property
    def is_good(self) -> bool:
        """
        Whether nothing fails.
        """
        return not self.is_poisoned and self.keep_error is None


class Monitor:
    """
    Notes what happens to one store, and tells the sinks. Any thread may call.

    Args:
        path: the store's directory.
        on_event: a sink beside the log.
        now_ms: a clock that never steps back.
        time_ms: the wall clock, ms since 1970.
    """

    def __init__(
        self,
        path: str,
        on_event: EventSink | None = None,
        *,
        now_ms: Callable[[], int] = clock_ms,
        time_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._path = path
        self._sinks = [log_event] if on_event is None else [log_event, on_event]
        self._now_ms = now_ms
        self._time_ms = time_ms
        self._lock = Lock()
        self._kept_ms: int | None = None
        self._failure: tuple[object, ...] | None = None
        self._error: str | None = None
        self._is_whole_failure = False
        self._is_poisoned = False
        self._damaged: set[int | None] = set()
        self._synced_at_ms = now_ms()

    def tell(self, kind: Callable[..., StoreEvent], **facts: Any) -> None:  # noqa: ANN401
        """
        Make an event of now, and give it to the sinks. An error of a sink is logged.
        """
        event = kind(path=self._path, time_ms=self._time_ms(), **facts)
        for sink in self._sinks:
            hand_over(event, sink)

    def note_opening(self, report: RecoveryReport) -> None:
        """
        The store was opened for writing.
        """
        if not (report.is_clean or report.is_new):
            self.tell(
                StoreRecovered,
                end_offset=report.end_offset,
                scanned_bytes=report.scanned_bytes,
                records=report.records,
                reasons=report.foreign,
            )
        if report.cut_offset is not None:
            reason = f"{report.cut_reason} (rule {report.rule})"
            self.note_cut(report.cut_offset, report.cut_bytes, reason)
        if report.stranded:
            names = tuple(map(segment_name, report.stranded))
            self.tell(StrandedSegmentsRemoved, segments=names)
        self.tell(
            StoreOpened,
            min_offset=report.min_offset,
            end_offset=report.end_offset,
            is_new=report.is_new,
        )

    def note_closing(self, end_offset: int, error: Exception | None = None) -> None:
        """
        The store was closed; with an error it is not clean.
        """
        text = "" if error is None else _line(error)
        self.tell(StoreClosed, end_offset=end_offset, error=text)

    def note_cut(self, offset: int, bytes_cut: int, reason: str) -> None:
        """
        The end of the log was moved down; it is no event if it was there before.
        """
        if bytes_cut:
            self.tell(LogCut, offset=offset, bytes_cut=bytes_cut, reason=reason)

    def note_sealed(self, base_offset: int, records: int) -> None:
        """
        A segment was sealed.
        """
        self.tell(SegmentSealed, base_offset=base_offset, records=records)

    def note_deleted(self, segments: int, min_offset: int) -> None:
        """
        Segments were deleted, if any.
        """
        if segments:
            self.tell(SegmentsDeleted, segments=segments, min_offset=min_offset)

    @contextmanager
    def keeping(self, ends: Callable[[], Ends], *, is_whole: bool) -> Iterator[None]:
        """
        Note how one maintenance ends, which is the body of the ``with`` block.

        Args:
            ends: returns those of the log; it raises if the log is closed or forked.
            is_whole: of a log with its queues. That of the log alone does not end a
                failure of the whole one.
        """
        ends()
        try:
            yield
        except Exception as error:
            # It is raised again; a background thread has no caller who hears it.
            self.note_failure(error, is_whole=is_whole)
            raise
        self.note_synced(ends())
        self._note_success(is_whole=is_whole)

    def note_failure(self, error: Exception, *, is_whole: bool = True) -> None:
        """
        The maintenance failed.
        """
        with self._lock:
            # Not the error itself: its frames would keep the store alive.
            before, self._failure = self._failure, _kind(error)
            self._is_whole_failure = is_whole
            self._error = f"{type(error).__name__}: {_line(error)}"
            is_new = before != self._failure
        if isinstance(error, PoisonedError):
            self.note_poisoned(error.offset or 0)
        if isinstance(error, CorruptError):
            self.note_damage(error)
        if is_new:
            self.tell(MaintenanceFailed, reason=_line(error))

    def _note_success(self, *, is_whole: bool) -> None:
        with self._lock:
            if self._is_whole_failure and not is_whole:
                return
            before, self._failure, self._error = self._failure, None, None
            self._is_whole_failure = False
            self._kept_ms = self._time_ms()
        if before is not None:
            self.tell(MaintenanceResumed)

    def note_synced(self, ends: Ends) -> None:
        """
        Look how much of the log is on disk.
        """
        if ends.poisoned:
            self.note_poisoned(ends.synced_end)
        elif ends.synced_end >= ends.published_end:
            self._synced_at_ms = self._now_ms()

    def note_stored(self, synced_end: int) -> None:
        """
        Bounds were stored.
        """
        self.tell(LogSynced, synced_end=synced_end)

    def note_poisoned(self, synced_end: int) -> None:
        """
        A write-back failed.
        """
        with self._lock:
            was, self._is_poisoned = self._is_poisoned, True
        if not was:
            self.tell(StorePoisoned, synced_end=synced_end)

    def note_damage(self, error: CorruptError) -> None:
        """
        Promised bytes are bad: told once for an offset.
        """
        with self._lock:
            is_known = error.offset in self._damaged
            self._damaged.add(error.offset)
        if not is_known:
            self.tell(DamageFound, offset=error.offset, reason=error.reason)

    def health(self, ends: Ends, dispatched_end: int | None) -> Health:
        """
        Returns the health of a store now.

        Args:
            ends: of the log.
            dispatched_end: the end of the records with queue entries.
        """
        self.note_synced(ends)
        unsynced = max(ends.published_end - ends.synced_end, 0)
        behind = None
        if dispatched_end is not None:
            behind = max(ends.published_end - max(dispatched_end, ends.min_offset), 0)
        with self._lock:
            return Health(
                is_poisoned=ends.poisoned or self._is_poisoned,
                kept_ms=self._kept_ms,
                keep_error=self._error,
                unsynced_bytes=unsynced,
                sync_age_ms=self._now_ms() - self._synced_at_ms if unsynced else 0,
                undispatched_bytes=behind,
            )


def _kind(error: Exception) -> tuple[object, ...]:
    return type(error), getattr(error, "errno", None)


def _line(error: Exception) -> str:
    text = " ".join(str(error).split("\n"))
    return text or type(error).__name__
