"""
The record store: six verbs over memory, LMDB and ZooKeeper.

`pystore.records.record_store` says what the verbs promise; each backend has a
module of its own, so that nobody needs ZooKeeper's client who does not use it.
See docs/record-store.md.
"""

from __future__ import annotations

__all__: list[str] = []
