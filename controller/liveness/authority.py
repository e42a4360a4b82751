"""
What a controller may say at a moment, by the term for which it leads. Pure.

A controller that was cut off reads, hears and answers as before, and does not notice
that another one leads. So it speaks only for as long after a *commit* as nobody else
can lead, counted from when that commit was sent (C2). And one that has just begun to
lead knows nothing of the leases that the one before it granted: it has to wait for the
longest (C3).

Source: C2, C3; R222, R226, R229; docs/record-store.md, terms.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.controller.liveness.clock_skew import granted
from pystore.records.term import Term

__all__ = ["LEASE_MS", "Authority"]

LEASE_MS = 10_000
"""
How long a controller waits for the end of a lease of which it knows nothing. Not to be
configured: the next controller could be configured otherwise.
"""

_PROOFS = 3
"""How often a term is proven in the time that one proof lasts (C2)."""


@dataclass(frozen=True, slots=True)
class Authority:
    """
    Of one controller for one term. The clock is that of the term: boot time.

    Attributes:
        term: as the record store knows it; it says when the last commit was sent.
        began_ns: when the campaign had *answered*. When it was sent, somebody else may
            still have led.
    """

    term: Term
    began_ns: int

    @property
    def until_ns(self) -> int | None:
        """
        Until when this controller may grant leases and name roles, exclusive;
        ``None``: for as long as its process lives.
        """
        length_ns = self.term.length_ns
        return None if length_ns is None else self.term.sent_ns + granted(length_ns)

    @property
    def prove_at_ns(self) -> int | None:
        """
        When the next commit with the term's check is due, at the latest, also if
        there is nothing to commit; ``None``: never.
        """
        length_ns = self.term.length_ns
        return None if length_ns is None else self.term.sent_ns + length_ns // _PROOFS

    @property
    def replaces_at_ns(self) -> int:
        """
        From when a master that this controller never heard of may be replaced: no
        lease of the controller before is left, and who is alive had time to say so.
        """
        return self.began_ns + LEASE_MS * 1_000_000

    def is_proven(self, now_ns: int) -> bool:
        """
        Returns whether a lease may be granted and a role be named.
        """
        until_ns = self.until_ns
        return until_ns is None or now_ns < until_ns

    def may_replace(self, now_ns: int) -> bool:
        """
        Returns what `Facts.may_replace` asks for.
        """
        return now_ns >= self.replaces_at_ns
