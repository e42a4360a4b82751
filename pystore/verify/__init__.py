"""
Verification: checks every record, seal and consume queue of a store.
"""

from __future__ import annotations

from pystore.verify.report import Damage, QueueReport, StoreReport
from pystore.verify.store import verify_store

__all__ = ["Damage", "QueueReport", "StoreReport", "verify_store"]
