"""
Terms and campaigns, the same for every backend.

The store that holds the record of a path leads. A campaign is a commit with a hold of
that record, checked at the version that was read. It is refused while another store
holds the record, and tried again after the record vanished. If this store already holds
it, a new term begins, so a store never waits for itself, also after a lost answer or
another write to the record.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pystore.errors import ClosedError
from pystore.records.ops import ABSENT, CheckVersion, Hold, KeyOps, Op, by_key
from pystore.records.record_store import StoredRecord
from pystore.records.term import Term

__all__ = ["Leadership", "Made"]

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@dataclass(frozen=True, slots=True)
class Made:
    """
    A successful commit.

    Attributes:
        version: of the written records.
        sent_ns: when it was sent.
    """

    version: int
    sent_ns: int


class Leadership:
    """
    The terms of one store. Any thread.

    Args:
        commit: of the backend; ``None``: a check failed.
        get: of the backend; raises if the store is closed, lost or the parent's.
        await_absence: blocks until a record may have vanished; raises when the
            store is closed or lost.
        length_ns: returns the length of a term, at its beginning.
    """

    __slots__ = (
        "_await_absence",
        "_campaigns",
        "_commit",
        "_get",
        "_is_over",
        "_length_ns",
        "_lock",
        "_terms",
    )

    def __init__(
        self,
        commit: Callable[[Mapping[str, KeyOps]], Made | None],
        get: Callable[[str], StoredRecord | None],
        await_absence: Callable[[str], None],
        length_ns: Callable[[], int | None],
    ) -> None:
        self._commit = commit
        self._get = get
        self._await_absence = await_absence
        self._length_ns = length_ns
        self._lock = threading.Lock()
        self._terms: dict[str, Term] = {}
        self._campaigns: dict[str, threading.Lock] = {}
        self._is_over = False

    def commit(self, ops: Sequence[Op]) -> int | None:
        """
        Commits, and records the send time in each checked term.
        """
        keys = by_key(ops)
        made = self._commit(keys)
        if made is None:
            return None
        with self._lock:
            for path, term in self._terms.items():
                if path in keys and keys[path].version == term.number:
                    # Answers may arrive in another order than the commits were sent.
                    term.sent_ns = max(term.sent_ns, made.sent_ns)
        return made.version

    def campaign(self, path: str, name: str) -> Term:
        """
        Blocks until the store leads. Several threads with one path get the same term.
        """
        # In a forked child this raises before the lock, which no thread would release.
        self._get(path)
        with self._lock:
            turn = self._campaigns.setdefault(path, threading.Lock())
        with turn:
            return self._lead(path, name)

    def end(self) -> None:
        """
        Ends all terms before the store gives its holds up.
        """
        with self._lock:
            self._is_over = True
        self.shorten(0)

    def shorten(self, length_ns: int) -> None:
        """
        Shortens all terms: the servers granted a shorter session.
        """
        with self._lock:
            for term in self._terms.values():
                if term.length_ns is None or term.length_ns > length_ns:
                    term.length_ns = length_ns

    def _lead(self, path: str, name: str) -> Term:
        value = name.encode(errors="backslashreplace")
        while True:
            found = self._get(path)
            version = ABSENT if found is None else found.version
            with self._lock:
                mine = self._terms.get(path)
            if mine is not None and mine.number == version:
                return mine
            made = self._commit(
                by_key([CheckVersion(path, version), Hold(path, value)])
            )
            if made is not None:
                return self._begun(path, name, made)
            if found is not None:
                self._await_absence(path)

    def _begun(self, path: str, name: str, made: Made) -> Term:
        term = Term(path, name, made.version, made.sent_ns, self._length_ns())
        with self._lock:
            if self._is_over:
                raise ClosedError(
                    f"the record store was closed before {name!r} became the leader"
                )
            self._terms[path] = term
        return term
