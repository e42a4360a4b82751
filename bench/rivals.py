"""
Rivals: other ways to store the same bodies in the same batches.

Each is used as its makers advise for bulk appends, and all data is on disk at the end
of the timed region. Their guarantees differ: only pystore adds checksums that are
checked, offsets, queues, keys and tags, and keeps every acknowledged record if the
process is killed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import lmdb
from contest import Contender, Timed
from load import BODY_SIZE, Load
from rocksdict import Options, Rdict, WriteBatch

__all__ = ["RIVALS", "SYNCED_EACH", "rival"]

_IOVECS_MAX = 1024


@contextmanager
def _file(root: Path) -> Iterator[int]:
    file = os.open(root / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        yield file
    finally:
        os.close(file)


@contextmanager
def _write(root: Path, load: Load) -> Iterator[Timed]:
    """
    ``os.write`` of a joined batch; one ``fdatasync`` at the end.
    """
    with _file(root) as file:

        def run() -> None:
            bodies = load.bodies
            for _ in range(load.batches):
                os.write(file, b"".join(bodies))
            os.fdatasync(file)

        yield run


@contextmanager
def _writev(root: Path, load: Load) -> Iterator[Timed]:
    """
    ``os.writev`` of a batch; one ``fdatasync`` at the end.
    """
    with _file(root) as file:

        def run() -> None:
            bodies = load.bodies
            for _ in range(load.batches):
                for at in range(0, load.batch, _IOVECS_MAX):
                    os.writev(file, bodies[at : at + _IOVECS_MAX])
            os.fdatasync(file)

        yield run


@contextmanager
def _fdatasync(root: Path, load: Load) -> Iterator[Timed]:
    """
    ``os.writev`` and ``fdatasync`` batch by batch.
    """
    with _file(root) as file:

        def run() -> None:
            bodies = load.bodies
            for _ in range(load.batches):
                os.writev(file, bodies)
                os.fdatasync(file)

        yield run


@contextmanager
def _lmdb(root: Path, load: Load) -> Iterator[Timed]:
    """
    LMDB: one transaction a batch, ``append=True``, one sync at the end.

    A killed process loses nothing, a power cut before the sync may lose all.
    """
    size = 4 * load.body_bytes + 2**30
    with lmdb.open(str(root), map_size=size, sync=False, metasync=False) as env:

        def run() -> None:
            bodies = load.bodies
            number = 0
            for _ in range(load.batches):
                with env.begin(write=True) as transaction:
                    for body in bodies:
                        key = number.to_bytes(8, "big")
                        transaction.put(key, body, append=True)
                        number += 1
            env.sync(force=True)

        yield run
        assert env.stat()["entries"] == load.records


@contextmanager
def _sqlite(root: Path, load: Load) -> Iterator[Timed]:
    """
    SQLite in WAL mode: one transaction a batch, a checkpoint at the end.
    """
    with closing(sqlite3.connect(root / "log.db", isolation_level=None)) as db:
        db.execute("pragma journal_mode=wal")
        db.execute("pragma synchronous=normal")
        db.execute("create table log (id integer primary key, body blob)")

        def run() -> None:
            rows = [(body,) for body in load.bodies]
            for _ in range(load.batches):
                db.execute("begin")
                db.executemany("insert into log (body) values (?)", rows)
                db.execute("commit")
            db.execute("pragma wal_checkpoint(truncate)")

        yield run
        assert db.execute("select count(*) from log").fetchone() == (load.records,)


@contextmanager
def _rocksdb(root: Path, load: Load) -> Iterator[Timed]:
    """
    RocksDB: one write batch a batch, through its write-ahead log, synced last.
    """
    with closing(Rdict(str(root), Options(raw_mode=True))) as db:

        def run() -> None:
            bodies = load.bodies
            number = 0
            for _ in range(load.batches):
                batch = WriteBatch(raw_mode=True)
                for body in bodies:
                    batch.put(number.to_bytes(8, "big"), body)
                    number += 1
                db.write(batch)
            db.flush_wal(sync=True)

        yield run
        last = (load.records - 1).to_bytes(8, "big")
        found = db[last]
        assert isinstance(found, bytes)
        assert len(found) == BODY_SIZE


RIVALS = {
    "write": _write,
    "writev": _writev,
    "fdatasync": _fdatasync,
    "lmdb": _lmdb,
    "sqlite-wal": _sqlite,
    "rocksdb": _rocksdb,
}

SYNCED_EACH = ("fdatasync",)
"""Rivals that sync every batch: a stronger guarantee, with other figures."""


def rival(name: str, folder: Callable[[], Path], load: Load) -> Contender:
    """
    A rival by its name.
    """
    assert load.bodies

    @contextmanager
    def contend() -> Iterator[Timed]:
        with RIVALS[name](folder(), load) as timed:
            yield timed

    return contend
