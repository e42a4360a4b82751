"""
The last refusal of each set: kept in its record, but not with one commit per refusal.
And a line for people about each refused broker, but not one per request.

Source: RMQ-R271.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from pystore.controller.model.decision import Rejected
from pystore.controller.model.state import NotedRefusal, SetKey, SetState
from pystore.remoting.codes import ResponseCode

__all__ = ["LastRefusals", "RefusalLines"]

_EVERY_NS = 10 * 1_000_000_000
"""The shortest interval between two commits of refusals of one set."""


_LINE_EVERY_NS = 60 * 1_000_000_000
_LINES_MAX = 1024


class RefusalLines:
    """
    The lines about brokers whose registration or id is refused: an operator would see
    only a set that is not known. One thread.

    Args:
        say: receives one line for people: for each broker and code one a minute.
    """

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._said_ns: OrderedDict[tuple[SetKey, int, ResponseCode], int] = (
            OrderedDict()
        )

    def note(
        self, key: SetKey, broker_id: int, found: Rejected, requester: str, now_ns: int
    ) -> None:
        """
        Takes note of a refusal.
        """
        kind = key, broker_id, found.code
        said_ns = self._said_ns.get(kind)
        if said_ns is not None and now_ns - said_ns < _LINE_EVERY_NS:
            return
        self._said_ns[kind] = now_ns
        self._said_ns.move_to_end(kind)
        if len(self._said_ns) > _LINES_MAX:
            self._said_ns.popitem(last=False)
        cluster, name = key
        self._say(
            f"{requester}: broker {broker_id} of set {name} of cluster {cluster} is "
            f"refused, {found.code.value} {found.code.name}: {found.reason}"
        )


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
