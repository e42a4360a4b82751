"""
A crash-safe append-only commit log, byte-compatible with RocketMQ 5.

``open_log`` and ``open_store`` are the way in: a log, or a log with consume
queues, with a thread that keeps their bounds. `CommitLog` and `Store` are the
same without the thread.
"""

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
    "gather_columns",
    "inspect",
    "open_log",
    "open_store",
]
