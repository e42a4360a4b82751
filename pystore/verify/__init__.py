"""
Is a store whole? Every record, seal and consume queue, at the speed of the disk.
"""

from __future__ import annotations

from pystore.verify.report import Damage, QueueReport, StoreReport
from pystore.verify.store import verify_store

__all__ = ["Damage", "QueueReport", "StoreReport", "verify_store"]
