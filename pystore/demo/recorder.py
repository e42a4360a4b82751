"""
The recorder of a replicated run: what brokers, controllers and the writer say becomes
the lanes and the events of its timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pystore.demo.event_recorder import EventRecorder
from pystore.demo.timeline import BrokerState, MarkKind, Timeline, TimelineEvent

__all__ = ["KnownSet", "Recorder", "broker_name", "id_list"]

_ROLES = {"following": "slave"}
_SILENT = {"idle", "pending", "starting", "paused", "down"}
"""Roles without a line of their own: others say so, or they last some milliseconds."""

Status = Mapping[str, Any]
_Found = TypeVar("_Found")


def broker_name(broker: int) -> str:
    """
    Returns the name of a broker in a line.
    """
    return f"broker {broker}"


def id_list(brokers: tuple[int, ...] | list[int]) -> str:
    """
    Returns ids as a list: ``1, 2, 3``.
    """
    return ", ".join(map(str, brokers)) or "-"


class KnownSet:
    """
    What is known about the set now. Only under the lock of the recorder.

    Attributes:
        statuses: the newest one of each broker; of one that is down or paused none.
        leader: address of the controller that leads; empty: none that is known.
        acked_by: the broker of the newest acknowledgement; ``None``: there was none.
    """

    def __init__(self) -> None:
        self.statuses: dict[int, Status] = {}
        self.leader = ""
        self.acked_by: int | None = None

    @property
    def master(self) -> int | None:
        """
        The broker that is master in the highest epoch.
        """
        masters = [
            (status["masterEpoch"], broker)
            for broker, status in self.statuses.items()
            if status["role"] == "master"
        ]
        return max(masters)[1] if masters else None

    def in_sync(self) -> tuple[int, ...]:
        """
        Returns the SyncStateSet by its master, without candidates.
        """
        master = self.master
        return () if master is None else tuple(self.statuses[master]["syncStateSet"])

    def ends(self) -> set[int | None]:
        """
        Returns where the logs of the brokers end.
        """
        return {status["endOffset"] for status in self.statuses.values()}


class Recorder(EventRecorder):
    """
    Any thread, but `say` and `wait_for`, which show events: one thread.

    Args:
        timeline: is filled.
        seconds: since the start of the run.
        tell: receives each event, in the thread of the story. Its errors end the story.
    """

    def __init__(
        self,
        timeline: Timeline,
        seconds: Callable[[], float],
        tell: Callable[[TimelineEvent], object],
    ) -> None:
        super().__init__(timeline, seconds, tell)
        self._view = KnownSet()
        self._held: set[int] = set()
        self._sets: dict[int, tuple[int, ...]] = {}
        self._said: dict[int, BrokerState] = {}
        self._leader_before: str | None = None

    def hold(self, broker: int, role: str) -> None:
        """
        Records that a broker is ``paused`` or ``down`` from now on, whatever answers
        of it are still under way.
        """
        with self._changed:
            self._held.add(broker)
            self._gone(broker, role)

    def release(self, broker: int, role: str = "") -> None:
        """
        Ends what `hold` began.

        Args:
            broker: that goes on.
            role: from now on; empty: what its next answer says.
        """
        with self._changed:
            self._held.discard(broker)
            if role:
                self.timeline.change(self._seconds(), broker, BrokerState(role))

    def lost(self, broker: int) -> None:
        """
        Records that a broker does not answer.
        """
        with self._changed:
            known = self.timeline.state(broker).role
            if broker not in self._held and known != "starting":
                self._gone(broker, "down")

    def _gone(self, broker: int, role: str) -> None:
        self._view.statuses.pop(broker, None)
        if role == "down":
            self._sets.pop(broker, None)
            self._said.pop(broker, None)
        self.timeline.change(self._seconds(), broker, BrokerState(role))
        self._changed.notify_all()

    def seen(self, broker: int, status: Status) -> None:
        """
        Records an answer of a broker.
        """
        with self._changed:
            if broker in self._held:
                return
            self._view.statuses[broker] = status
            role, epoch = status["role"], status["masterEpoch"]
            state = BrokerState(role, epoch, status["masterId"])
            if self.timeline.change(self._seconds(), broker, state):
                self._say_role(broker, state)
            if role == "master":
                self._say_set(broker, status)
            self._changed.notify_all()

    def _say_role(self, broker: int, state: BrokerState) -> None:
        if state.role in _SILENT or self._said.get(broker) == state:
            return
        self._said[broker] = state
        text = _ROLES.get(state.role, state.role)
        if state.role == "following" and state.master is not None:
            text += f" of broker {state.master}"
        if state.epoch:
            text += f" in epoch {state.epoch}"
        self._note(broker_name(broker), text)

    def _say_set(self, broker: int, status: Status) -> None:
        members = tuple(status["syncStateSet"])
        if self._sets.get(broker) != members:
            self._sets[broker] = members
            self._note(broker_name(broker), f"SyncStateSet {id_list(members)}")

    def leads(self, address: str, name: str) -> None:
        """
        Records which controller leads.

        Args:
            address: of the controller; empty: none is known.
            name: of the controller.
        """
        with self._changed:
            if address and address != self._view.leader:
                mark = None if self._leader_before is None else MarkKind.CONTROLLER
                self._note(name, "leads", mark, f"{name} leads")
                self._leader_before = address
            self._view.leader = address
            self._changed.notify_all()

    def acked(self, broker: int, records: int) -> None:
        """
        Records an acknowledgement.
        """
        with self._changed:
            at_s = self._seconds()
            if self._view.acked_by != broker:
                self._note("writer", f"first `all` ack of {broker_name(broker)}")
            self._view.acked_by = broker
            self.timeline.acks.append((at_s, records))
            self._changed.notify_all()

    def wait_for(self, found: Callable[[KnownSet], bool], limit_s: float) -> bool:
        """
        Waits until it holds, shows events, and returns whether it does.

        Args:
            found: looks at the set; must not block.
            limit_s: how long at most.
        """
        return self.wait_until(lambda: found(self._view), limit_s)

    def view(self, look: Callable[[KnownSet], _Found]) -> _Found:
        """
        Returns what a look at the set finds.
        """
        with self._changed:
            return look(self._view)
