"""
A crash-safe append-only commit log, byte-compatible with RocketMQ 5.

``open_log`` opens a log, ``open_store`` a log with its consume queues; both start a
maintenance thread. `CommitLog` and `Store` are the same without the thread.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pystore.stored_names import install

if TYPE_CHECKING:
    from pystore.bindings.ffi import POSITION_DTYPE, RECORD_DTYPE, Check, Proof, Stop
    from pystore.core.options import Route
    from pystore.core.results import Appended, Block, CutReport, Ends, IllRange
    from pystore.epochs.table import EpochEntry, EpochTable
    from pystore.errors import (
        BusyError,
        ClosedError,
        CorruptError,
        CutError,
        FencedError,
        ForkedError,
        FormatError,
        FullError,
        InvalidError,
        LocalViolation,
        LockedError,
        NotAStoreError,
        OffsetOutOfRange,
        PoisonedError,
        ProtocolViolation,
        PystoreError,
        RemoteViolation,
        StorageError,
        UnavailableError,
    )
    from pystore.message.columns import Columns, gather_columns
    from pystore.message.message import Message
    from pystore.message.record import Record
    from pystore.recovery.dry_run import Inspection, inspect
    from pystore.spark.scan.arrow_reader import arrow_reader
    from pystore.store.commit_log import CommitLog
    from pystore.store.maintenance import MaintenanceThread, open_log, open_store
    from pystore.store.monitor import Health
    from pystore.store.report import RecoveryReport
    from pystore.store.retention import Retention
    from pystore.store.store import Store

__all__ = [
    "POSITION_DTYPE",
    "RECORD_DTYPE",
    "Appended",
    "Block",
    "BusyError",
    "Check",
    "ClosedError",
    "Columns",
    "CommitLog",
    "CorruptError",
    "CutError",
    "CutReport",
    "Ends",
    "EpochEntry",
    "EpochTable",
    "FencedError",
    "ForkedError",
    "FormatError",
    "FullError",
    "Health",
    "IllRange",
    "Inspection",
    "InvalidError",
    "LocalViolation",
    "LockedError",
    "MaintenanceThread",
    "Message",
    "NotAStoreError",
    "OffsetOutOfRange",
    "PoisonedError",
    "Proof",
    "ProtocolViolation",
    "PystoreError",
    "Record",
    "RecoveryReport",
    "RemoteViolation",
    "Retention",
    "Route",
    "Stop",
    "StorageError",
    "Store",
    "UnavailableError",
    "arrow_reader",
    "gather_columns",
    "inspect",
    "open_log",
    "open_store",
]

install()

# Loaded at the first use: a program waits only for the parts that it needs, and one
# without the core (`pystore.spark.scan.python_segment`) needs none of it.
_HOMES = {
    "Appended": "core.results",
    "Block": "core.results",
    "BusyError": "errors",
    "Check": "bindings.ffi",
    "ClosedError": "errors",
    "Columns": "message.columns",
    "CommitLog": "store.commit_log",
    "CorruptError": "errors",
    "CutError": "errors",
    "CutReport": "core.results",
    "Ends": "core.results",
    "EpochEntry": "epochs.table",
    "EpochTable": "epochs.table",
    "FencedError": "errors",
    "ForkedError": "errors",
    "FormatError": "errors",
    "FullError": "errors",
    "Health": "store.monitor",
    "IllRange": "core.results",
    "Inspection": "recovery.dry_run",
    "InvalidError": "errors",
    "LocalViolation": "errors",
    "LockedError": "errors",
    "MaintenanceThread": "store.maintenance",
    "Message": "message.message",
    "NotAStoreError": "errors",
    "OffsetOutOfRange": "errors",
    "POSITION_DTYPE": "bindings.ffi",
    "PoisonedError": "errors",
    "Proof": "bindings.ffi",
    "ProtocolViolation": "errors",
    "PystoreError": "errors",
    "RECORD_DTYPE": "bindings.ffi",
    "Record": "message.record",
    "RecoveryReport": "store.report",
    "RemoteViolation": "errors",
    "Retention": "store.retention",
    "Route": "core.options",
    "Stop": "bindings.ffi",
    "StorageError": "errors",
    "Store": "store.store",
    "UnavailableError": "errors",
    "arrow_reader": "spark.scan.arrow_reader",
    "gather_columns": "message.columns",
    "inspect": "recovery.dry_run",
    "open_log": "store.maintenance",
    "open_store": "store.maintenance",
}


# Deprecated names, and their names now; docs/python.md says how long they stay.
_RENAMED = {"Keeper": "MaintenanceThread"}

if TYPE_CHECKING:
    __version__: str
    Keeper = MaintenanceThread
else:  # with it, a type checker would accept every name

    def __getattr__(name: str) -> object:
        if name == "__version__":  # of the installed distribution: kept in one place
            return import_module("importlib.metadata").version("pystore-commitlog")
        if name in _RENAMED:
            new = _RENAMED[name]
            text = f"pystore.{name} is called pystore.{new} now"
            import_module("warnings").warn(text, DeprecationWarning, stacklevel=2)
            return getattr(import_module("pystore"), new)
        if name not in _HOMES:
            raise AttributeError(f"module 'pystore' has no attribute {name!r}")
        found: object = getattr(import_module(f"pystore.{_HOMES[name]}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
