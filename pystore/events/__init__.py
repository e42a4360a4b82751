"""
What happens in the background: typed events, and the logger that hears them.
"""

from __future__ import annotations

from pystore.events.store_events import (
    LOGGER,
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
