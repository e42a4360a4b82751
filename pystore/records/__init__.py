"""
The record store: six operations, with backends in memory, LMDB and ZooKeeper.

`pystore.records.record_store` defines the operations. Each backend has a module of its
own, so that only users of ZooKeeper need its client. See docs/record-store.md.
"""

from __future__ import annotations

__all__: list[str] = []
