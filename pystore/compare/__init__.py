"""
Two stores compared by the bytes of their logs, without Spark.
"""

from __future__ import annotations

from pystore.compare.report import (
    CompareReport,
    FirstDifference,
    LogDifference,
    SideState,
)
from pystore.compare.run import compare_stores

__all__ = [
    "CompareReport",
    "FirstDifference",
    "LogDifference",
    "SideState",
    "compare_stores",
]
