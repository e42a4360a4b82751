"""
A crash-safe append-only commit log, byte-compatible with RocketMQ 5.

``open_log`` and ``open_store`` are the way in: a log, or a log with consume
queues, with a thread that keeps their bounds. `CommitLog` and `Store` are the
same without the thread.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pystore._seam import POSITION_DTYPE, RECORD_DTYPE, Check, Proof, Stop
    from pystore.columns import Columns, gather_columns
    from pystore.epochs import EpochEntry, EpochTable
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
    from pystore.inspection import Inspection, inspect
    from pystore.keeper import Keeper, open_log, open_store
    from pystore.log import CommitLog
    from pystore.messages import Message
    from pystore.options import Route
    from pystore.record import Record
    from pystore.report import RecoveryReport
    from pystore.results import Appended, Block, CutReport, Ends
    from pystore.retention import Retention
    from pystore.store import Store

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
    "Inspection",
    "InvalidError",
    "Keeper",
    "LocalViolation",
    "LockedError",
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
    "gather_columns",
    "inspect",
    "open_log",
    "open_store",
]

# Loaded when they are asked for: a program that needs a part waits for that part
# only, and one without the core (`pystore.spark.decoder`) needs none of it.
_HOMES = {
    "Appended": "results",
    "Block": "results",
    "BusyError": "errors",
    "Check": "_seam",
    "ClosedError": "errors",
    "Columns": "columns",
    "CommitLog": "log",
    "CorruptError": "errors",
    "CutError": "errors",
    "CutReport": "results",
    "Ends": "results",
    "EpochEntry": "epochs",
    "EpochTable": "epochs",
    "FencedError": "errors",
    "ForkedError": "errors",
    "FormatError": "errors",
    "FullError": "errors",
    "Inspection": "inspection",
    "InvalidError": "errors",
    "Keeper": "keeper",
    "LocalViolation": "errors",
    "LockedError": "errors",
    "Message": "messages",
    "NotAStoreError": "errors",
    "OffsetOutOfRange": "errors",
    "POSITION_DTYPE": "_seam",
    "PoisonedError": "errors",
    "Proof": "_seam",
    "ProtocolViolation": "errors",
    "PystoreError": "errors",
    "RECORD_DTYPE": "_seam",
    "Record": "record",
    "RecoveryReport": "report",
    "RemoteViolation": "errors",
    "Retention": "retention",
    "Route": "options",
    "Stop": "_seam",
    "StorageError": "errors",
    "Store": "store",
    "UnavailableError": "errors",
    "gather_columns": "columns",
    "inspect": "inspection",
    "open_log": "keeper",
    "open_store": "keeper",
}


if TYPE_CHECKING:
    __version__: str
else:  # a checker would believe in every name

    def __getattr__(name: str) -> object:
        if name == "__version__":  # of the installed distribution: kept in one place
            return import_module("importlib.metadata").version("pystore-commitlog")
        if name not in _HOMES:
            raise AttributeError(f"module 'pystore' has no attribute {name!r}")
        found: object = getattr(import_module(f"pystore.{_HOMES[name]}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
