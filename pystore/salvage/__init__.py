"""
Whole records taken out of a damaged store, or of bytes that were saved from one.
"""

from __future__ import annotations

from pystore.salvage.report import LeftRange, RejectedRecord, SalvageReport
from pystore.salvage.run import salvage_records, salvage_store

__all__ = [
    "LeftRange",
    "RejectedRecord",
    "SalvageReport",
    "salvage_records",
    "salvage_store",
]
