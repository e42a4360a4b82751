"""
The epoch table of a log, and its file.
"""

from __future__ import annotations

from pystore.epochs.file import EpochFile, encode_epochs, read_epochs
from pystore.epochs.table import NO_END, NO_EPOCH, EpochEntry, EpochRange, EpochTable

__all__ = [
    "NO_END",
    "NO_EPOCH",
    "EpochEntry",
    "EpochFile",
    "EpochRange",
    "EpochTable",
    "encode_epochs",
    "read_epochs",
]
