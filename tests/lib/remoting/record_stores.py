"""
Shared records on each backend, and helpers of tests.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from pystore.clocks import boottime_ns
from pystore.records.lmdb_store import LmdbStore
from pystore.records.memory import MemorySpace, MemoryStore
from pystore.records.ops import Op, Put
from pystore.records.record_store import RecordStore

__all__ = [
    "BACKENDS",
    "InLmdb",
    "InMemory",
    "InZookeeper",
    "Space",
    "filled",
    "keys_of",
    "put",
]


class Space(Protocol):
    """
    Records that several stores share.
    """

    def open(self, clock_ns: Callable[[], int] | None = None) -> RecordStore:
        """
        Another store over the same space.
        """
        ...

    def close(self) -> None:
        """
        Closes all that were opened.
        """
        ...


class InMemory:
    """
    A space of `MemoryStore`.
    """

    def __init__(self) -> None:
        self._space = MemorySpace()
        self._opened: list[MemoryStore] = []

    def open(self, clock_ns: Callable[[], int] | None = None) -> MemoryStore:
        """
        Another store over the same space.
        """
        store = MemoryStore(self._space, clock_ns=clock_ns or boottime_ns)
        self._opened.append(store)
        return store

    def close(self) -> None:
        """
        Closes all that were opened.
        """
        for store in self._opened:
            store.close()


class InLmdb:
    """
    A space of `LmdbStore`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: list[LmdbStore] = []

    def open(self, clock_ns: Callable[[], int] | None = None) -> LmdbStore:
        """
        Another store over the same space.
        """
        store = LmdbStore(self._path, clock_ns=clock_ns or boottime_ns)
        self._opened.append(store)
        return store

    def close(self) -> None:
        """
        Closes all that were opened.
        """
        for store in self._opened:
            store.close()


class InZookeeper:
    """
    A space of `ZookeeperStore`, under a root of its own.
    """

    def __init__(self, hosts: str) -> None:
        self._hosts = hosts
        self._root = f"/{uuid.uuid4().hex}"
        self._opened: list[RecordStore] = []

    def open(self, clock_ns: Callable[[], int] | None = None) -> RecordStore:
        """
        Another store over the same space.
        """
        # Only here: kazoo is an extra.
        from pystore.records.zookeeper_store import (  # noqa: PLC0415
            ZookeeperStore,
        )

        store = ZookeeperStore(
            self._hosts, root=self._root, clock_ns=clock_ns or boottime_ns
        )
        self._opened.append(store)
        return store

    def close(self) -> None:
        """
        Closes all that were opened.
        """
        for store in self._opened:
            store.close()


def filled(store: RecordStore, keys: list[str], value: bytes = b"") -> None:
    """
    Puts records, by the hundred.
    """
    ops: list[Op] = [Put(key, value) for key in keys]
    for at in range(0, len(ops), 500):
        assert store.commit(ops[at : at + 500])


def put(store: RecordStore, key: str, value: bytes = b"v") -> int:
    """
    Puts a record; returns its version.
    """
    version = store.commit([Put(key, value)])
    assert version
    return version


def keys_of(store: RecordStore) -> list[str]:
    """
    All the keys there are.
    """
    return [record.key for record in store.scan()]


Opener = Callable[[pytest.FixtureRequest, pytest.TempPathFactory], Space]

BACKENDS: dict[str, Opener] = {
    "memory": lambda _request, _folders: InMemory(),
    "lmdb": lambda _request, folders: InLmdb(folders.mktemp("records")),
    "zookeeper": lambda request, _folders: InZookeeper(
        request.getfixturevalue("zookeeper").hosts
    ),
}
"""How a test gets an empty space, by the name of the backend."""
