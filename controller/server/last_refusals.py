"""
The last refusal of each set: kept in its record, but not with one commit per refusal.
And how often a refusal is told to people: not once per request.

Source: RMQ-R271.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TypeVar

from pystore.controller.model.decision import Rejected
from pystore.controller.model.state import NotedRefusal, SetKey, SetState

__all__ = ["LastRefusals", "RefusalRate"]

_K = TypeVar("_K")
_V = TypeVar("_V")

_EVERY_NS = 10 * 1_000_000_000
"""The shortest interval between two commits of refusals of one set."""


_TOLD_EVERY_NS = 60 * 1_000_000_000
_LASTS_NS = 4 * 1_000_000_000
_SAME_EVERY_NS = 3600 * 1_000_000_000
_TOLD_MAX = 1024
_UNKNOWN_MAX = 32
"""Refusals about sets without a record that are told in `_TOLD_EVERY_NS`: a request may
name any set."""


class RefusalRate:
    """
    How often a refusal is told: a broker that repeats its request each second fills
    neither the log nor the history. One thread.
    """

    def __init__(self) -> None:
        self._told_ns: OrderedDict[tuple[object, ...], int] = OrderedDict()
        self._last: OrderedDict[SetKey, tuple[str, int]] = OrderedDict()
        self._own: OrderedDict[SetKey, tuple[str, int]] = OrderedDict()
        # When each of the last ones about sets without a record was told.
        self._unknown_ns: deque[int] = deque(maxlen=_UNKNOWN_MAX)

    def is_due(
        self,
        key: SetKey,
        found: Rejected,
        requester: str,
        now_ns: int,
        *,
        is_unknown: bool = False,
    ) -> bool:
        """
        Returns whether to tell a refusal: one a minute of each code for a broker and a
        host, and one an hour if it is the same as the last one of its set. One of a
        command of the controller itself is told once it has lasted for some seconds. Of
        all sets without a record a few a minute are told.

        Args:
            key: of the set.
            found: the refusal.
            requester: its address; empty: the controller itself.
            now_ns: boot time.
            is_unknown: the set has no record.
        """
        reason, said_ns = self._last.get(key, ("", 0))
        if reason == found.reason and now_ns - said_ns < _SAME_EVERY_NS:
            return False
        if not requester and not self._lasts(key, found.reason, now_ns):
            return False
        host = requester.rpartition(":")[0]
        kind = key, host, min(found.broker_ids, default=0), found.code
        told_ns = self._told_ns.get(kind)
        if told_ns is not None and now_ns - told_ns < _TOLD_EVERY_NS:
            return False
        if is_unknown and not self._tells_unknown(now_ns):
            return False
        _keep(self._told_ns, kind, now_ns)
        _keep(self._last, key, (found.reason, now_ns))
        return True

    def _tells_unknown(self, now_ns: int) -> bool:
        told_ns = self._unknown_ns
        if len(told_ns) == _UNKNOWN_MAX and now_ns - told_ns[0] < _TOLD_EVERY_NS:
            return False
        told_ns.append(now_ns)
        return True

    def _lasts(self, key: SetKey, reason: str, now_ns: int) -> bool:
        """
        Returns whether an own command is refused for some time: in a new set, or after
        the begin of a term, the next one is not.
        """
        first, since_ns = self._own.get(key, ("", now_ns))
        if first != reason:
            _keep(self._own, key, (reason, now_ns))
            return False
        return now_ns - since_ns >= _LASTS_NS

    def changed(self, key: SetKey) -> None:
        """
        Takes note of a change of a set: what is refused after it is told again.
        """
        self._last.pop(key, None)
        self._own.pop(key, None)


def _keep(some: OrderedDict[_K, _V], key: _K, value: _V) -> None:
    some[key] = value
    some.move_to_end(key)
    if len(some) > _TOLD_MAX:
        some.popitem(last=False)


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
