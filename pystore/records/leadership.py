"""
Commits that prove terms, and the campaign for one: the same on every backend.

Who holds the record of a path leads. So a campaign is a commit that holds the record
as it was read, absent or not: it is refused while it is another's, and tried again
whenever it vanished. Where it is ours already a new term begins, so nobody waits for
itself, whoever wrote to the record and whatever became of an answer.
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
    A commit that was made.

    Attributes:
        version: of what it wrote.
        sent_ns: when it was sent.
    """

    version: int
    sent_ns: int


class Leadership:
    """
    The terms of one store. Any thread.

    Args:
        commit: the backend's; ``None``: a check failed.
        get: the backend's; raises when the store is closed, lost or the parent's.
        await_absence: blocks until a record may have vanished; raises when the
            store is closed or lost.
        length_ns: of a term, asked when it begins.
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
        Commits, and notes the send time in each term that was checked.
        """
        keys = by_key(ops)
        made = self._commit(keys)
        if made is None:
            return None
        with self._lock:
            for path, term in self._terms.items():
                if path in keys and keys[path].version == term.number:
                    # Answers may come in another order than commits were sent.
                    term.sent_ns = max(term.sent_ns, made.sent_ns)
        return made.version

    def campaign(self, path: str, name: str) -> Term:
        """
        Blocks until the store leads; at once if it does. Of several threads with one
        path all are told the same term.
        """
        # In a forked child it raises before a lock that nobody would give back.
        self._get(path)
        with self._lock:
            turn = self._campaigns.setdefault(path, threading.Lock())
        with turn:
            return self._lead(path, name)

    def end(self) -> None:
        """
        Proves nothing any more: for a store that is about to give up what it holds.
        """
        with self._lock:
            self._is_over = True
        self.shorten(0)

    def shorten(self, length_ns: int) -> None:
        """
        The servers grant less than they did: so much is proven, of each term.
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
                raise ClosedError(f"the record store was closed before {name!r} led")
            self._terms[path] = term
        return term
