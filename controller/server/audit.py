"""
The audit log: every accepted order of an operator, in the record store.

A line is committed together with the change that it tells, so neither is there without
the other. Each line is one record, and its key has the time; the oldest is removed for
the newest.

Source: docs/security.md, *The audit log*.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from pystore.access.roles import UserRole, roles_of
from pystore.clocks import wall_ms
from pystore.controller.model.state import SetState
from pystore.controller.server.record_keys import AUDIT
from pystore.errors import FormatError
from pystore.events.event import time_text
from pystore.records.ops import Delete, Op, Put
from pystore.records.record_store import RecordStore
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand

__all__ = ["LINES_MAX", "AuditLog", "Order", "order_of", "read_audit", "set_summary"]

LINES_MAX = 1_000
"""Lines that are kept."""

_TEXT_CHARS_MAX = 1_000
_NUMBERS = 1_000_000  # of lines within a millisecond
_DIGITS = 19


@dataclass(frozen=True, slots=True)
class Order:
    """
    Who gave an order.

    Attributes:
        command: the name of its request.
        user: that signed it; empty: it was not verified.
        address: of its connection.
    """

    command: str
    user: str
    address: str


def order_of(request: RemotingCommand, address: str) -> Order | None:
    """
    Returns the order of a request that only operators may send; ``None``: it is another
    request.
    """
    if roles_of(request) != {UserRole.OPERATOR}:
        return None
    return Order(RequestCode(request.code).name, request.user, address)


def set_summary(state: SetState) -> str:
    """
    Returns what an operator may have changed of a set.
    """
    if not state.version:
        return "no record"
    master = state.master.broker_id if state.master is not None else "none"
    members = sorted(one.broker_id for one in state.agreed.members)
    ids = " ".join(
        f"{one.broker_id}{' (learner)' * one.is_learner}"
        f"{'' if one.priority is None else f' (priority {one.priority})'}"
        for one in state.replicas
    )
    return (
        f"epoch {state.epoch}, master {master}, in sync {members}, brokers {ids}, "
        f"elections {'automatic' if state.is_automatic else 'by order'}, preferred "
        f"{state.preferred_id or 'none'}, copies {state.copies or 'as registered'}, "
        f"next id {state.next_id}"
    )


class AuditLog:
    """
    Makes the lines of one controller. Any thread; `load` blocks.

    Args:
        clock_ms: the time of day.
    """

    def __init__(self, clock_ms: Callable[[], int] = wall_ms) -> None:
        self._clock_ms = clock_ms
        self._keys: deque[str] = deque()
        self._last = 0
        self._lock = threading.Lock()

    def load(self, store: RecordStore) -> None:
        """
        Reads which lines there are, at the begin of a term.

        Raises:
            PystoreError: the store cannot be read.
        """
        found = deque(one.key for one in store.scan(AUDIT))
        with self._lock:
            self._keys = found
            self._last = _number(found[-1]) if found else 0

    def ops(self, order: Order, subject: str, before: str, after: str) -> list[Op]:
        """
        Returns what adds a line to a commit.

        Args:
            order: who gave it.
            subject: what it changes.
            before: the subject before it.
            after: the subject after it.
        """
        now_ms = self._clock_ms()
        line = {
            "time": time_text(now_ms),
            "user": order.user,
            "address": order.address,
            "command": order.command,
            "subject": subject[:_TEXT_CHARS_MAX],
            "before": before[:_TEXT_CHARS_MAX],
            "after": after[:_TEXT_CHARS_MAX],
        }
        with self._lock:
            # Later than each line before, also if the clock was set back.
            self._last = max(self._last + 1, now_ms * _NUMBERS)
            key = f"{AUDIT}{self._last:0{_DIGITS}}"
            self._keys.append(key)
            found: list[Op] = [Put(key, json.dumps(line).encode())]
            if len(self._keys) > LINES_MAX:
                found.append(Delete(self._keys.popleft()))
        return found


def read_audit(store: RecordStore, count: int) -> list[bytes]:
    """
    Returns the last lines, oldest first, each as JSON. Blocks.

    Raises:
        FormatError: a line is damaged.
        PystoreError: the store cannot be read.
    """
    found = store.scan(AUDIT)[-count:]
    for one in found:
        if one.damage:
            raise FormatError(f"record {one.key}: {one.damage}", path=one.key)
    return [one.value for one in found]


def _number(key: str) -> int:
    text = key.removeprefix(AUDIT)
    return int(text) if text.isascii() and text.isdigit() else 0
