"""
What happens to a store: one typed event for each fact.

`log_event` is the default sink: it writes each event to the logger ``pystore``, which
has no handler of its own. A program adds a sink with ``on_event=`` of
`pystore.open_store` and the other openings.

Threads: an event is told in the thread in which the fact happens, often that of the
maintenance. A sink returns soon, and calls no method of the store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from pystore.events.event import Event, log_to

__all__ = [
    "LOGGER",
    "DamageFound",
    "EventSink",
    "LogCut",
    "LogSynced",
    "MaintenanceFailed",
    "MaintenanceResumed",
    "SegmentSealed",
    "SegmentsDeleted",
    "StoreClosed",
    "StoreEvent",
    "StoreOpened",
    "StorePoisoned",
    "StoreRecovered",
    "StrandedSegmentsRemoved",
    "log_event",
]

LOGGER = logging.getLogger("pystore")
# Without it, a program that configures no logging would print warnings.
LOGGER.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreEvent(Event):
    """
    A fact about a store that is open for writing, or was to be opened.

    Attributes:
        path: the store's directory.
    """

    path: str

    @property
    def subject(self) -> str:
        """
        The directory.
        """
        return self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOpened(StoreEvent):
    """
    A store takes appends.

    Attributes:
        min_offset, end_offset: of its log.
        is_new: it was created, or had no ``meta/``.
    """

    min_offset: int
    end_offset: int
    is_new: bool

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        kind = "new store" if self.is_new else "opened"
        return f"{kind}: offsets {self.min_offset} to {self.end_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRecovered(StoreEvent):
    """
    A store that was not closed cleanly, or was changed by another program, was checked
    while it was opened.

    Attributes:
        end_offset: of its log.
        scanned_bytes, records: what was checked.
        reasons: how another program changed the store; empty if none did.
    """

    end_offset: int
    scanned_bytes: int
    records: int
    reasons: tuple[str, ...]

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        why = "; ".join(self.reasons) or "it was not closed"
        return (
            f"recovered ({why}): {self.records} records in {self.scanned_bytes} bytes "
            f"checked, end offset {self.end_offset}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCut(StoreEvent):
    """
    Bytes at the end of the log were removed: by a recovery, or by `CommitLog.cut`.

    Attributes:
        offset: the end of the log after the cut.
        bytes_cut: how many bytes were removed.
        reason: why.
    """

    offset: int
    bytes_cut: int
    reason: str
    level: ClassVar[int] = logging.WARNING

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        return f"cut {self.bytes_cut} bytes from offset {self.offset} on: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StrandedSegmentsRemoved(StoreEvent):
    """
    An opening removed empty segments behind a missing one, as a killed RocketMQ leaves
    them (A2).

    Attributes:
        segments: the names of their files.
    """

    segments: tuple[str, ...]
    level: ClassVar[int] = logging.WARNING

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        names = ", ".join(self.segments)
        return f"removed empty segments behind a missing one: {names} (rule A2)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSealed(StoreEvent):
    """
    A full segment was checked, and its digests were stored.

    Attributes:
        base_offset: of the segment.
        records: in it.
    """

    base_offset: int
    records: int
    level: ClassVar[int] = logging.DEBUG

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        return f"sealed the segment at {self.base_offset}: {self.records} records"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSynced(StoreEvent):
    """
    The maintenance synced the log, and stored its bounds.

    Attributes:
        synced_end: the bytes below survive a power cut.
    """

    synced_end: int
    level: ClassVar[int] = logging.DEBUG

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        return f"synced to offset {self.synced_end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePoisoned(StoreEvent):
    """
    A write-back failed: nothing above the synced end is promised, and appends raise.

    Attributes:
        synced_end: the bytes below survive a power cut.
    """

    synced_end: int
    level: ClassVar[int] = logging.WARNING

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        return (
            f"a write-back failed: nothing above offset {self.synced_end} is promised: "
            "close the store and open it again"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentsDeleted(StoreEvent):
    """
    Segments at the front of the log were deleted.

    Attributes:
        segments: how many.
        min_offset: of the log after that.
    """

    segments: int
    min_offset: int

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        return f"{self.segments} segments deleted: the log begins at {self.min_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageFound(StoreEvent):
    """
    Promised bytes fail a check.

    Attributes:
        offset: of the log, or ``None``.
        reason: what was found.
    """

    offset: int | None
    reason: str
    level: ClassVar[int] = logging.WARNING

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        where = "" if self.offset is None else f" at offset {self.offset}"
        return f"damage{where}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceFailed(StoreEvent):
    """
    The maintenance failed, or fails in another way than before. It tries again.

    Attributes:
        reason: the error.
    """

    reason: str
    level: ClassVar[int] = logging.WARNING

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        return f"maintenance fails, and tries again: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceResumed(StoreEvent):
    """
    The maintenance works again after it had failed.
    """

    level: ClassVar[int] = logging.WARNING

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        return "maintenance works again"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreClosed(StoreEvent):
    """
    A store was closed.

    Attributes:
        end_offset: of its log.
        error: why it has no clean mark, in one line; empty: it was closed cleanly.
    """

    end_offset: int
    error: str

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        how = f"without a clean mark: {self.error}" if self.error else "cleanly"
        return f"closed {how}, end offset {self.end_offset}"


EventSink = Callable[[StoreEvent], object]
"""A function that is called with each event."""


def log_event(event: StoreEvent) -> None:
    """
    Write an event to the logger ``pystore``, at its level.
    """
    log_to(LOGGER, event)
