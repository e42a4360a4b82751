"""
What a record store is: six verbs. Pure.

A record is a key, a value and a *version*: a number that rises with every commit
of the store and that no two commits share. So a version names one state of one
record for ever, also when the record is deleted and made again. Everything that
is decided from what was read is decided by a `Check` in the commit.

Source: docs/record-store.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pystore.records.ops import Op
from pystore.records.term import Term

__all__ = ["RecordStore", "StoredRecord"]


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """
    A record as it was read.

    Attributes:
        key: as it was committed.
        value: any bytes.
        version: of the commit that wrote it last.
    """

    key: str
    value: bytes
    version: int


class RecordStore(Protocol):
    """
    The six verbs. Any thread may call them; after a fork the parent's store
    raises `ForkedError` in the child.

    Errors of every verb:
        ClosedError: the store was closed.
        SessionLostError: the store's holds and terms may be another's; close it.
        UnavailableError: unreachable; nothing was changed.
        StorageError: the system refused; nothing was changed.
    """

    def get(self, key: str) -> StoredRecord | None:
        """
        A record; ``None``: it is not there.

        At least as new as every commit that was answered before the call. It
        proves nothing for later: a `Check` does.
        """
        ...

    def scan(
        self, prefix: str = "", after: str = "", limit: int | None = None
    ) -> list[StoredRecord]:
        """
        Records in the order of their keys' UTF-8.

        Each is as new as `get` has it. In LMDB and memory all are of one moment,
        in ZooKeeper they may be of different ones.

        Args:
            prefix: what each key starts with.
            after: what each key is greater than.
            limit: how many at most; ``None``: all.

        Raises:
            InvalidError: a bound that is no text.
        """
        ...

    def commit(self, ops: Sequence[Op]) -> int | None:
        """
        All of it, durably, or nothing.

        Args:
            ops: for each key at most one check and one other, in any order.

        Returns:
            The version of what it wrote; where it changes nothing, that of the
            last commit. Never 0. ``None``: a check or a hold failed.

        Raises:
            UnknownOutcomeError: it may have been made, or not. `get` says which.
            FullError: no space; nothing was changed.
            InvalidError: no store could accept it; nothing was changed.
        """
        ...

    def wait(self, token: int, timeout_s: float) -> int:
        """
        Until something was committed since ``token``, or the time is over.

        That a holder died is no commit.

        Args:
            token: what an earlier call answered; 0 to get one at once.
            timeout_s: at most so long.

        Returns:
            A token; the same one: nothing was committed.
        """
        ...

    def campaign(self, path: str, name: str) -> Term:
        """
        Blocks until this store holds ``path``: who does is the leader. Again is fine,
        also while another thread campaigns: all get the same term.

        Args:
            path: a key; its record says who leads.
            name: who we are, for people.

        Raises:
            UnknownOutcomeError: campaign again or close the store, lest it leads
                without knowing.
        """
        ...

    def close(self) -> None:
        """
        Gives up what it holds, after its terms have ended. Again is fine; who blocks
        gets a `ClosedError`.
        """
        ...
