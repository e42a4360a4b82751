"""
Commits that prove terms, and the campaign for one: the same on every backend.

Who holds the record of a path leads. So a campaign is a commit that wants the
record absent and holds it, tried again whenever it vanished.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pystore.records.ops import ABSENT, Check, Hold, KeyOps, Op, by_key
from pystore.records.record_store import Record
from pystore.records.term import Term

__all__ = ["Leadership", "Made", "boottime_ns"]

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime_ns() -> int:
    """
    The clock that terms are told by: it goes on while the machine sleeps.
    """
    return time.clock_gettime_ns(_BOOTTIME)


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
        get: the backend's.
        await_absence: blocks until a record may have vanished; raises when the
            store is closed or lost.
        length_ns: of a term, asked when it begins.
    """

    __slots__ = ("_await_absence", "_commit", "_get", "_length_ns", "_lock", "_terms")

    def __init__(
        self,
        commit: Callable[[Mapping[str, KeyOps]], Made | None],
        get: Callable[[str], Record | None],
        await_absence: Callable[[str], None],
        length_ns: Callable[[], int | None],
    ) -> None:
        self._commit = commit
        self._get = get
        self._await_absence = await_absence
        self._length_ns = length_ns
        self._lock = threading.Lock()
        self._terms: dict[str, Term] = {}

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
        Blocks until the store leads; at once if it does.
        """
        ops = by_key([Check(path, ABSENT), Hold(path, name.encode())])
        while True:
            made = self._commit(ops)
            if made is not None:
                term = Term(path, name, made.version, made.sent_ns, self._length_ns())
                with self._lock:
                    self._terms[path] = term
                return term
            with self._lock:
                mine = self._terms.get(path)
            found = self._get(path)
            if mine is not None and found is not None and found.version == mine.number:
                return mine
            if found is not None:
                self._await_absence(path)
