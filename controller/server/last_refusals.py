"""
The last refusal of each set: kept with its record, but not with a commit for each.

Source: R271.
"""

from __future__ import annotations

from pystore.controller.model.decision import Rejected
from pystore.controller.model.state import NotedRefusal, SetKey, SetState

__all__ = ["LastRefusals"]

_EVERY_NS = 10 * 1_000_000_000
"""How often a refusal of a set is written down."""


class LastRefusals:
    """
    Those of one term. One thread.
    """

    def __init__(self) -> None:
        self._last: dict[SetKey, NotedRefusal] = {}
        self._written_ns: dict[SetKey, int] = {}

    def last(self, state: SetState) -> NotedRefusal | None:
        """
        Returns the last one of a set, also if it is not in the record.
        """
        return self._last.get(state.key, state.refusal)

    def note(
        self, state: SetState, found: Rejected, now_ns: int
    ) -> NotedRefusal | None:
        """
        Something was refused.

        Returns:
            what is to be written into the record; ``None``: it says the same already,
            or was written a moment ago.
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
