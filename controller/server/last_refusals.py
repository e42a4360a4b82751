"""
The last refusal of each set: kept in its record, but not with one commit per refusal.

Source: RMQ-R271.
"""

from __future__ import annotations

from pystore.controller.model.decision import Rejected
from pystore.controller.model.state import NotedRefusal, SetKey, SetState

__all__ = ["LastRefusals"]

_EVERY_NS = 10 * 1_000_000_000
"""The shortest interval between two commits of refusals of one set."""


class LastRefusals:
    """
    The last refusals in one term. One thread.
    """

    def __init__(self) -> None:
        self._last: dict[SetKey, NotedRefusal] = {}
        self._written_ns: dict[SetKey, int] = {}

    def last(self, state: SetState) -> NotedRefusal | None:
        """
        Returns the last refusal of a set, also if the record does not have it.
        """
        return self._last.get(state.key, state.refusal)

    def note(
        self, state: SetState, found: Rejected, now_ns: int
    ) -> NotedRefusal | None:
        """
        Takes note of a refusal.

        Returns:
            the refusal to commit; ``None``: the record has the same one, or the last
            commit was a moment ago.
        """
        if not state.is_known:
            return None
        broker_id = min(found.broker_ids, default=0)
        refusal = NotedRefusal(found.code, found.reason, broker_id)
        self._last[state.key], old = refusal, state.refusal
        if old is not None and (old.code, old.broker_id) == (found.code, broker_id):
            return None
        if now_ns - self._written_ns.get(state.key, -_EVERY_NS) < _EVERY_NS:
            return None
        self._written_ns[state.key] = now_ns
        return refusal
