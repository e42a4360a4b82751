"""
A store: a log with its consume queues, opened, maintained and closed.
"""

from __future__ import annotations

from pystore.store.store import Store

__all__ = ["Store"]
