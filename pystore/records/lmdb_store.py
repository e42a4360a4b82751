"""
The record store in LMDB: for one host and several processes.

A commit is one write transaction. LMDB runs one at a time on the host, so checks and
writes are atomic. A version is the number of that transaction. A hold is a row with the
number of its owner, which is alive while its process has locked a byte
(`pystore.records.lmdb_owners`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pystore.clocks import boottime_ns
from pystore.errors import ClosedError, ForkedError
from pystore.records.leadership import Leadership, Made
from pystore.records.lmdb_environment import MAP_BYTES, LmdbEnvironment
from pystore.records.lmdb_row import NO_HOLDER, Row
from pystore.records.lmdb_spaces import note_changes, token_of
from pystore.records.ops import ABSENT, Delete, Hold, KeyOps, Op, check_bound, check_key
from pystore.records.record_store import StoredRecord, StoreSpace
from pystore.records.spaces import changed_spaces, space_of
from pystore.records.term import Term

__all__ = ["LmdbStore"]

_FIRST = b"\x01"  # keys below it are not records


class LmdbStore:
    """
    One owner over a directory; see `pystore.records.record_store.RecordStore`.

    The first call opens the directory, so a store may be created before a fork and used
    after it. Not for network file systems.

    Args:
        path: a directory; created if its parent exists.
        map_bytes: its largest size.
        poll_s: the polling interval of `wait` and `campaign`.
        clock_ns: the clock of send times.
    """

    reads_locally = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        map_bytes: int = MAP_BYTES,
        poll_s: float = 0.002,
        clock_ns: Callable[[], int] = boottime_ns,
    ) -> None:
        self.path = Path(path)
        self._map_bytes = map_bytes
        self._poll_s = poll_s
        self._clock_ns = clock_ns
        self._ended = threading.Event()
        self._idle = threading.Condition()
        self._calls = 0
        self._space: LmdbEnvironment | None = None
        self._owner = NO_HOLDER
        self._leadership = Leadership(
            self._commit, self.get, self._await_absence, lambda: None
        )

    def get(self, key: str) -> StoredRecord | None:
        """
        See `RecordStore.get`.
        """
        raw = check_key(key)
        with self._call() as space, space.reading() as view:
            row = view.row(raw)
        return None if row is None else StoredRecord(key, row.value, row.version)

    def scan(
        self, prefix: str = "", after: str = "", limit: int | None = None
    ) -> list[StoredRecord]:
        """
        See `RecordStore.scan`.
        """
        found: list[StoredRecord] = []
        start, past = check_bound(prefix), check_bound(after)
        with self._call() as space, space.reading() as view:
            for key, row, damage in view.rows(max(start, past, _FIRST)):
                if not key.startswith(start) or len(found) == limit:
                    break
                if key > past and (damage or view.is_there(row)):
                    text = key.decode(errors="replace" if damage else "strict")
                    found.append(StoredRecord(text, row.value, row.version, damage))
        return found

    def commit(self, ops: Sequence[Op]) -> int | None:
        """
        See `RecordStore.commit`.
        """
        return self._leadership.commit(ops)

    def wait(self, token: int, timeout_s: float, space: str = "") -> int:
        """
        See `RecordStore.wait`.
        """
        asked = space_of(f"{space}/")
        end_ns = boottime_ns() + int(timeout_s * 1e9)
        while True:
            # `info` shows a transaction before its sync, when readers do not see it
            # yet.
            with self._call() as environment, environment.reading() as view:
                last = token_of(view.transaction, asked)
            left_s = (end_ns - boottime_ns()) / 1e9
            if last != token or left_s <= 0:
                return last
            self._ended.wait(min(self._poll_s, left_s))

    def measure(self) -> StoreSpace:
        """
        See `BoundedStore.measure`.
        """
        with self._call() as space:
            return space.measure()

    def campaign(self, path: str, name: str) -> Term:
        """
        See `RecordStore.campaign`.
        """
        return self._leadership.campaign(path, name)

    def close(self) -> None:
        """
        See `RecordStore.close`; waits for calls in other threads.
        """
        if self._space is not None and self._space.is_forked:
            return
        self._ended.set()
        self._leadership.end()
        with self._idle:
            self._idle.wait_for(lambda: self._calls == 0)
            space, self._space = self._space, None
        if space is not None:
            space.owners.give(self._owner)
            space.leave()

    @contextmanager
    def _call(self) -> Iterator[LmdbEnvironment]:
        space = self._space
        if space is not None and space.is_forked:
            # Checked before any lock: another thread may have held it at the fork.
            raise ForkedError(
                f"{self.path} was opened by the parent process before the fork: open "
                "it in only one of them",
                path=str(self.path),
            )
        with self._idle:
            if self._ended.is_set():
                raise ClosedError(f"{self.path} is closed", path=str(self.path))
            space = self._space or self._opened()
            self._calls += 1
        try:
            yield space
        finally:
            with self._idle:
                self._calls -= 1
                self._idle.notify_all()

    def _opened(self) -> LmdbEnvironment:
        space = LmdbEnvironment.enter(self.path, self._map_bytes)
        try:
            self._owner = space.begin_owner()
        except BaseException:
            # Any error: the store stays closed, and the next call tries again.
            space.leave()
            raise
        self._space = space
        return space

    def _commit(self, keys: Mapping[str, KeyOps]) -> Made | None:
        sent_ns = self._clock_ns()
        with self._call() as space, space.writing() as view:
            rows = {key: view.row(key.encode()) for key in keys}
            if not all(self._holds(ops, rows[key]) for key, ops in keys.items()):
                return None
            version = view.transaction.id()
            is_there = {key: row is not None for key, row in rows.items()}
            changed = changed_spaces(keys, is_there)
            if not changed:
                return Made(version - 1, sent_ns)
            note_changes(view.transaction, changed)
            for key, ops in keys.items():
                raw, row = key.encode(), rows[key]
                if isinstance(ops.write, Delete):
                    view.transaction.delete(raw)
                elif ops.write is not None:
                    holder = NO_HOLDER if row is None else row.holder
                    if isinstance(ops.write, Hold):
                        holder = self._owner
                    stored = Row(version, holder, ops.write.value).encode(raw)
                    view.transaction.put(raw, stored)
        return Made(version, sent_ns)

    def _holds(self, ops: KeyOps, row: Row | None) -> bool:
        if ops.version not in (None, ABSENT if row is None else row.version):
            return False
        is_free = row is None or row.holder == self._owner
        return is_free or not isinstance(ops.write, Hold)

    def _await_absence(self, path: str) -> None:
        while self.get(path) is not None:
            self._ended.wait(self._poll_s)
