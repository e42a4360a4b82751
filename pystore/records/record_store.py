"""
The interface of a record store: six operations. Pure.

A record is a key, a value and a *version*: a number that rises with every commit of the
store; no two commits share one. So a version names one state of one record for ever,
also after the record is deleted and created again. A decision that depends on a read
needs a `CheckVersion` in its commit.

Source: docs/record-store.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pystore.records.ops import Op
from pystore.records.term import Term

__all__ = ["BoundedStore", "RecordStore", "StoreSpace", "StoredRecord"]


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """
    A record as read.

    Attributes:
        key: as committed.
        value: any bytes.
        version: of the commit that wrote it last.
        damage: why key, value and version may be wrong, one line; empty: they are
            right. Only `RecordStore.scan` returns damaged records.
    """

    key: str
    value: bytes
    version: int
    damage: str = ""


@dataclass(frozen=True, slots=True)
class StoreSpace:
    """
    The space of a store.

    Attributes:
        used: by its records, in bytes.
        size: that they may use at most.
    """

    used: int
    size: int


@runtime_checkable
class BoundedStore(Protocol):
    """
    A record store of a fixed largest size.
    """

    def measure(self) -> StoreSpace:
        """
        Returns its space.

        Raises:
            StorageError: the operating system refused.
        """
        ...


class RecordStore(Protocol):
    """
    The six operations. Any thread may call them; after a fork the parent's store raises
    `ForkedError` in the child.

    Errors of every operation:
        ClosedError: the store was closed.
        SessionLostError: its holds and terms may belong to another store; close it.
        UnavailableError: the store is unreachable; nothing was changed.
        StorageError: the operating system refused; nothing was changed.

    Attributes:
        reads_locally: a read costs no server a request, so it may be frequent.
    """

    @property
    def reads_locally(self) -> bool:
        """
        As said above.
        """
        ...

    def get(self, key: str) -> StoredRecord | None:
        """
        Returns a record; ``None``: it does not exist.

        It is at least as new as every commit that was answered before the call. It may
        change at once: only a `CheckVersion` in a commit is a guarantee.
        """
        ...

    def scan(
        self, prefix: str = "", after: str = "", limit: int | None = None
    ) -> list[StoredRecord]:
        """
        Returns records in the order of their keys' UTF-8.

        A damaged record, for which `get` raises a `FormatError`, is returned as such:
        it must not hide the others. Each is as new as with `get`. In LMDB and memory
        all are from one moment, in ZooKeeper they may be from different ones.

        Args:
            prefix: of each key.
            after: each key is greater than this one.
            limit: the largest number of records; ``None``: all.

        Raises:
            InvalidError: a bound is not text.
        """
        ...

    def commit(self, ops: Sequence[Op]) -> int | None:
        """
        Commits all operations durably, or none.

        Args:
            ops: for each key at most one check and one other, in any order.

        Returns:
            The version of the written records; if nothing changes, that of an earlier
            commit. Never 0. ``None``: a check or a hold failed.

        Raises:
            UnknownOutcomeError: it may be done or not. Read the records to know.
            FullError: no space; nothing was changed.
            InvalidError: the commit is invalid; nothing was changed.
        """
        ...

    def wait(self, token: int, timeout_s: float, space: str = "") -> int:
        """
        Blocks until a commit after ``token`` that changes a space, or until the time is
        over.

        Commits to other spaces do not end it. The death of a holder is not a commit.

        Args:
            token: from an earlier call for the same space; 0 to get one at once.
            timeout_s: the longest wait.
            space: the first component of keys (`pystore.records.spaces`); empty: the
                common space.

        Returns:
            A token; the same one if nothing was committed.
        """
        ...

    def campaign(self, path: str, name: str) -> Term:
        """
        Blocks until this store holds ``path`` and so leads. Idempotent, also while
        another thread campaigns: all get the same term.

        Args:
            path: a key; its record names the leader.
            name: of this process, for people.

        Raises:
            UnknownOutcomeError: campaign again or close the store: it may lead without
                knowing.
        """
        ...

    def close(self) -> None:
        """
        Ends its terms, then gives its holds up. Idempotent; blocked calls raise
        `ClosedError`.
        """
        ...
