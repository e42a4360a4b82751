"""
A term of leadership: what proves it, and until when it was proven. Pure.

Source: docs/record-store.md, terms (C2: reads prove nothing, only a commit does).
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.records.ops import CheckVersion

__all__ = ["Term"]


@dataclass(slots=True, eq=False)
class Term:
    """
    The time for which a store leads. Put its `check` into each commit.

    Attributes:
        path: the key whose record says who leads.
        name: who we are.
        number: the version of that record: it rises from term to term.
        sent_ns: when the last commit that checked it and was made was sent, by the
            store's clock.
        length_ns: for how long after that nobody else can lead: the session
            time-out that the servers granted; ``None``: for as long as the process
            lives, because the operating system keeps the lock; 0 once the store was
            closed.
    """

    path: str
    name: str
    number: int
    sent_ns: int
    length_ns: int | None

    @property
    def check(self) -> CheckVersion:
        """
        Refuses the commit of who no longer leads.
        """
        return CheckVersion(self.path, self.number)

    @property
    def proven_until_ns(self) -> int | None:
        """
        Until when nobody else leads, by the store's clock and without its error;
        ``None``: without an end.
        """
        return None if self.length_ns is None else self.sent_ns + self.length_ns
