"""
A term of leadership, and until when it is proven. Pure.

Source: docs/record-store.md, terms (C2: reads prove nothing, only a commit does).
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.records.ops import CheckVersion

__all__ = ["Term"]


@dataclass(slots=True, eq=False)
class Term:
    """
    A term of leadership. Put its `check` into each commit.

    Attributes:
        path: the key of the record that names the leader.
        name: of this process.
        number: the version of that record: it rises from term to term.
        sent_ns: when the last successful commit with its check was sent, by the store's
            clock.
        length_ns: how long after that no other store can lead: the session time-out
            that the servers granted; ``None``: for the life of the process, because the
            operating system keeps the lock; 0 once the store is closed.
    """

    path: str
    name: str
    number: int
    sent_ns: int
    length_ns: int | None

    @property
    def check(self) -> CheckVersion:
        """
        A check that fails once this store does not lead any more.
        """
        return CheckVersion(self.path, self.number)

    @property
    def proven_until_ns(self) -> int | None:
        """
        Until when no other store leads, by the store's clock and without its error;
        ``None``: without an end.
        """
        return None if self.length_ns is None else self.sent_ns + self.length_ns
