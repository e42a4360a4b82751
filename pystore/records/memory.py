"""
The record store in memory, for tests: sessions over shared records, with faults.

The caller chooses the fault of each call. Nothing else is random, so a simulation can
be repeated.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from pystore.clocks import boottime_ns
from pystore.errors import (
    ClosedError,
    ForkedError,
    FullError,
    SessionLostError,
    UnavailableError,
    UnknownOutcomeError,
)
from pystore.records.leadership import Leadership, Made
from pystore.records.ops import (
    ABSENT,
    Delete,
    Hold,
    KeyOps,
    Op,
    check_bound,
    check_key,
)
from pystore.records.record_store import StoredRecord
from pystore.records.spaces import NEVER, changed_spaces, space_of
from pystore.records.term import Term

__all__ = ["Fault", "MemorySpace", "MemoryStore"]


class Fault(Enum):
    """
    The fault of a call.
    """

    NONE = "none"
    UNREACHABLE = "unreachable"  # refused before anything was sent
    FULL = "full"  # no space; only commits fail
    LOST_REQUEST = "lost request"  # outcome unknown, not made; commits only
    LOST_ANSWER = "lost answer"  # outcome unknown, made; commits only
    SESSION_LOST = "session lost"  # before the call


def _no_fault(verb: str) -> Fault:  # noqa: ARG001
    return Fault.NONE


@dataclass(slots=True)
class _Row:
    value: bytes
    version: int
    holder: object | None


@dataclass(slots=True)
class MemorySpace:
    """
    The records that several stores share.

    Attributes:
        version: of the last commit.
        rows: by key.
        tokens: the version of the last commit that changed a space, by space.
        lock: guards the others.
        changed: wakes waiting calls; of the same lock.
    """

    version: int = 1
    rows: dict[str, _Row] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    changed: threading.Condition = field(init=False)

    def __post_init__(self) -> None:
        self.changed = threading.Condition(self.lock)

    def drop(self, holder: object) -> None:
        """
        Removes a holder's records. The caller has ``lock``.
        """
        held = [key for key, row in self.rows.items() if row.holder is holder]
        for key in held:
            del self.rows[key]
        self.changed.notify_all()


class MemoryStore:
    """
    One session over shared records; see `pystore.records.record_store.RecordStore`.

    Args:
        space: shared with other stores.
        faults: called with the operation's name at each call.
        clock_ns: the clock of send times.
        length_ns: of its terms.
    """

    reads_locally = True

    def __init__(
        self,
        space: MemorySpace | None = None,
        *,
        faults: Callable[[str], Fault] = _no_fault,
        clock_ns: Callable[[], int] = boottime_ns,
        length_ns: int | None = None,
    ) -> None:
        self.space = MemorySpace() if space is None else space
        self._faults = faults
        self._clock_ns = clock_ns
        self._is_closed = False
        self._is_lost = False
        self._process = os.getpid()
        self._leadership = Leadership(
            self._commit, self._get, self._await_absence, lambda: length_ns
        )

    def get(self, key: str) -> StoredRecord | None:
        """
        See `RecordStore.get`.
        """
        check_key(key)
        with self.space.lock:
            self._begun("get")
            return self._found(key)

    def _get(self, key: str) -> StoredRecord | None:
        with self.space.lock:
            self._usable()
            return self._found(key)

    def _found(self, key: str) -> StoredRecord | None:
        row = self.space.rows.get(key)
        return None if row is None else StoredRecord(key, row.value, row.version)

    def scan(
        self, prefix: str = "", after: str = "", limit: int | None = None
    ) -> list[StoredRecord]:
        """
        See `RecordStore.scan`.
        """
        check_bound(prefix)
        past = check_bound(after)
        with self.space.lock:
            self._begun("scan")
            keys = sorted(
                (
                    key
                    for key in self.space.rows
                    if key.startswith(prefix) and key.encode() > past
                ),
                key=str.encode,
            )
            rows = self.space.rows
            return [
                StoredRecord(key, rows[key].value, rows[key].version)
                for key in keys[:limit]
            ]

    def commit(self, ops: Sequence[Op]) -> int | None:
        """
        See `RecordStore.commit`.
        """
        return self._leadership.commit(ops)

    def wait(self, token: int, timeout_s: float, space: str = "") -> int:
        """
        See `RecordStore.wait`.
        """
        tokens, asked = self.space.tokens, space_of(f"{space}/")
        with self.space.lock:
            self._begun("wait")
            self.space.changed.wait_for(
                lambda: (
                    tokens.get(asked, NEVER) != token
                    or self._is_closed
                    or self._is_lost
                ),
                timeout_s,
            )
            self._usable()
            return tokens.get(asked, NEVER)

    def campaign(self, path: str, name: str) -> Term:
        """
        See `RecordStore.campaign`.
        """
        return self._leadership.campaign(path, name)

    def close(self) -> None:
        """
        See `RecordStore.close`.
        """
        if self._process != os.getpid():
            return
        self._leadership.end()
        with self.space.lock:
            self._is_closed = True
            self.space.drop(self)

    def lose_session(self) -> None:
        """
        Ends the session and removes its holds; the next call raises.
        """
        with self.space.lock:
            self._is_lost = True
            self.space.drop(self)

    def _begun(self, verb: str) -> Fault:
        """
        Returns the fault of a call that may continue. The caller has ``lock``.
        """
        self._usable()
        fault = self._faults(verb)
        if fault is Fault.SESSION_LOST:
            self.lose_session()
            self._usable()
        if fault is Fault.UNREACHABLE:
            raise UnavailableError("the record store is unreachable; try again")
        return fault

    def _usable(self) -> None:
        if self._process != os.getpid():
            raise ForkedError(
                "the parent process opened the record store: open another one here"
            )
        if self._is_closed:
            raise ClosedError("the record store is closed")
        if self._is_lost:
            raise SessionLostError(
                "the session and its holds are lost: open the record store again"
            )

    def _commit(self, keys: Mapping[str, KeyOps]) -> Made | None:
        sent_ns = self._clock_ns()
        with self.space.lock:
            fault = self._begun("commit")
            if fault is Fault.FULL:
                raise FullError("the record store is full; nothing was changed")
            version = None
            if fault is not Fault.LOST_REQUEST:
                version = self._apply(keys)
            if fault in (Fault.LOST_REQUEST, Fault.LOST_ANSWER):
                raise UnknownOutcomeError(
                    "the answer to a commit was lost: read its records"
                )
        return None if version is None else Made(version, sent_ns)

    def _apply(self, keys: Mapping[str, KeyOps]) -> int | None:
        space = self.space
        for key, ops in keys.items():
            row = space.rows.get(key)
            version = ABSENT if row is None else row.version
            if ops.version is not None and ops.version != version:
                return None
            if row and row.holder is not self and isinstance(ops.write, Hold):
                return None
        changed = changed_spaces(keys, {key: key in space.rows for key in keys})
        if not changed:
            return space.version
        space.version += 1
        space.tokens.update(dict.fromkeys(changed, space.version))
        for key, ops in keys.items():
            if isinstance(ops.write, Delete):
                space.rows.pop(key, None)
            elif ops.write is not None:
                row = space.rows.get(key)
                holder = row.holder if row else None
                if isinstance(ops.write, Hold):
                    holder = self
                space.rows[key] = _Row(ops.write.value, space.version, holder)
        space.changed.notify_all()
        return space.version

    def _await_absence(self, path: str) -> None:
        with self.space.lock:
            self.space.changed.wait_for(
                lambda: path not in self.space.rows or self._is_closed or self._is_lost
            )
            self._usable()
