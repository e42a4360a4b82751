"""
A record store with a queue, for the commands.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.autorecovery.statuses import busy_queue

from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.clocks import wall_ms
from pystore.records.lmdb_store import LmdbStore


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Path]:
    """
    The directory of a record store in LMDB, with one of everything in its queue; the
    processes that hold records are alive.
    """
    store = LmdbStore(tmp_path / "records")
    busy_queue(store, wall_ms())
    yield tmp_path / "records"
    store.close()


@pytest.fixture
def queue(records: Path) -> Iterator[UnderReplicationQueue]:
    """
    The queue as another process sees it.
    """
    store = LmdbStore(records)
    yield UnderReplicationQueue(store, wall_ms)
    store.close()


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """
    The directory of a record store without a queue.
    """
    store = LmdbStore(tmp_path / "empty")
    store.scan()
    store.close()
    return tmp_path / "empty"
