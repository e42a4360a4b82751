"""
The authority of a controller during its term. Pure.

A controller that lost its connection to the record store still receives requests and
answers them, and does not notice that another controller leads. So its authority lasts
only as long after a *commit* as no other controller can lead, counted from the sending
of that commit (C2). A new leader does not know the leases of the previous one: it has
to wait for the longest lease (C3).

Source: C2, C3; RMQ-R222, RMQ-R226, RMQ-R229; docs/record-store.md, terms.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.controller.liveness.clock_skew import granted
from pystore.records.term import Term

__all__ = ["LEASE_MS", "Authority"]

LEASE_MS = 10_000
"""
How long a controller waits for the end of an unknown lease. It is not configurable: the
next controller could have another configuration.
"""

_PROOFS = 3
"""The number of proofs of a term during the life of one proof (C2)."""


@dataclass(frozen=True, slots=True)
class Authority:
    """
    The authority of one controller for one term. Its clock is that of the term: boot
    time.

    Attributes:
        term: of the record store; it has the time when the last commit was sent.
        began_ns: when the *answer* of the campaign arrived. When the campaign was
            sent, another controller may still have led.
    """

    term: Term
    began_ns: int

    @property
    def until_ns(self) -> int | None:
        """
        The end of the authority to grant leases and name masters, exclusive; ``None``:
        the end of the process.
        """
        length_ns = self.term.length_ns
        return None if length_ns is None else self.term.sent_ns + granted(length_ns)

    @property
    def prove_at_ns(self) -> int | None:
        """
        The latest time for the next commit with the check of the term, also if there is
        nothing to commit; ``None``: never.
        """
        length_ns = self.term.length_ns
        return None if length_ns is None else self.term.sent_ns + length_ns // _PROOFS

    @property
    def replaces_at_ns(self) -> int:
        """
        From when a master without heartbeats may be replaced: all leases of the
        previous controller have expired, and live brokers had time to send a heartbeat.
        """
        return self.began_ns + LEASE_MS * 1_000_000

    def is_proven(self, now_ns: int) -> bool:
        """
        Returns whether this controller may grant leases and name masters.
        """
        until_ns = self.until_ns
        return until_ns is None or now_ns < until_ns

    def may_replace(self, now_ns: int) -> bool:
        """
        Returns the value of `Facts.may_replace`.
        """
        return now_ns >= self.replaces_at_ns
