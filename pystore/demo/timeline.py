"""
The timeline of a replicated run: what happened when, the roles of each broker, and the
acknowledgements. Pure: times are arguments, in seconds since the start.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

__all__ = [
    "EVENT_HEADER",
    "NEVER_RUN",
    "AckGap",
    "BrokerState",
    "LaneSpan",
    "MarkKind",
    "Timeline",
    "TimelineEvent",
    "event_lines",
]

_TIME_WIDTH, _WHO_WIDTH = 8, 12
_WHAT_COLUMN = _TIME_WIDTH + 2 + _WHO_WIDTH + 2

EVENT_HEADER = f"{'seconds':>{_TIME_WIDTH}}  {'who':<{_WHO_WIDTH}}  what"
"""The line above those of `event_lines`."""


class MarkKind(Enum):
    """
    What was done to the set on purpose.
    """

    KILL = "SIGKILL"
    RESTART = "restart"
    SWITCH = "planned switch"
    CONTROLLER = "controller"
    DAMAGE = "damage"
    REPAIRED = "repaired"
    ORDER = "order of an operator"


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """
    One thing that happened.

    Attributes:
        at_s: when.
        who: did it.
        what: one short line.
        mark: what was done on purpose; ``None``: it followed by itself.
        label: of the mark in a picture.
    """

    at_s: float
    who: str
    what: str
    mark: MarkKind | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class BrokerState:
    """
    What one broker is at a moment.

    Attributes:
        role: ``master``, ``following`` and the other roles of a replica; ``starting``,
            ``paused``, ``down``. Of a host: ``serving``, ``filling``, ``emptying``,
            ``spare``, ``down``.
        epoch: of the mastership that it knows; ``None``: none.
        master: id of the master that it knows.
        carries: what a host carries, for people.
    """

    role: str
    epoch: int | None = None
    master: int | None = None
    carries: str = ""


NEVER_RUN = BrokerState("down")


@dataclass(frozen=True, slots=True)
class LaneSpan:
    """
    How long a broker was what it was.

    Attributes:
        begin_s: inclusive.
        end_s: exclusive.
        state: of the broker.
    """

    begin_s: float
    end_s: float
    state: BrokerState


@dataclass(frozen=True, slots=True)
class AckGap:
    """
    A time without an acknowledgement.

    Attributes:
        begin_s: the last one before.
        end_s: the first one after.
        name: of what caused it; empty: not known.
        cause_s: when that was done.
    """

    begin_s: float
    end_s: float
    name: str = ""
    cause_s: float = 0.0

    @property
    def seconds(self) -> float:
        """
        How long it took.
        """
        return self.end_s - self.begin_s

    @property
    def after_s(self) -> float:
        """
        How long after the cause it ended.
        """
        return self.end_s - self.cause_s


@dataclass(slots=True)
class Timeline:
    """
    A whole run. Times never decrease within one list.

    Attributes:
        brokers: their ids, or the numbers of hosts, in the order of the lanes.
        lane: what a lane is of: ``broker`` or ``host``.
        queue: time, number of marked segments, and of dead ones, at each change; of a
            run with AutoRecovery.
        events: in order.
        acks: time and number of acknowledged records.
        gaps: those that the run measured.
        end_s: of the run.
    """

    brokers: tuple[int, ...]
    lane: str = "broker"
    queue: list[tuple[float, int, int]] = field(default_factory=list)
    events: list[TimelineEvent] = field(default_factory=list)
    acks: list[tuple[float, int]] = field(default_factory=list)
    gaps: list[AckGap] = field(default_factory=list)
    end_s: float = 0.0
    _states: dict[int, list[tuple[float, BrokerState]]] = field(default_factory=dict)

    def state(self, broker: int) -> BrokerState:
        """
        Returns the newest state of a broker.
        """
        found = self._states.get(broker)
        return found[-1][1] if found else NEVER_RUN

    def change(self, at_s: float, broker: int, state: BrokerState) -> bool:
        """
        Notes the state of a broker from a time on.

        Returns:
            Whether it is another one than before.
        """
        if self.state(broker) == state:
            return False
        self._states.setdefault(broker, []).append((at_s, state))
        return True

    def spans(self, broker: int) -> Iterator[LaneSpan]:
        """
        Yields the states of a broker up to the end, one after the other.
        """
        found = self._states.get(broker, [])
        ends = [at_s for at_s, _ in found[1:]] + [self.end_s]
        for (begin_s, state), end_s in zip(found, ends, strict=False):
            if end_s > begin_s:
                yield LaneSpan(begin_s, end_s, state)

    def longest_gap(self, since_s: float, until_s: float) -> AckGap | None:
        """
        Returns the longest time between two acknowledgements that has a part in an
        interval.

        Returns:
            ``None``: there are no two around or in it.
        """
        gaps = [
            AckGap(one, two)
            for (one, _), (two, _) in pairwise(self.acks)
            if one <= until_s and two >= since_s
        ]
        return max(gaps, key=lambda gap: gap.seconds, default=None)

    def acked_per(self, step_s: float) -> list[int]:
        """
        Returns the number of acknowledged records of each step, from 0 to the end.
        """
        counts = [0] * (int(self.end_s / step_s) + 1)
        for at_s, records in self.acks:
            counts[min(int(at_s / step_s), len(counts) - 1)] += records
        return counts


def event_lines(event: TimelineEvent, width: int | None = None) -> list[str]:
    """
    Returns an event as aligned lines: seconds, who, what.

    Args:
        event: to show.
        width: of the terminal; what does not fit continues below the first column of
            the text. ``None``: unlimited.
    """
    head = f"{event.at_s:{_TIME_WIDTH}.3f}  {event.who:<{_WHO_WIDTH}}  "
    room = None if width is None else max(width - _WHAT_COLUMN, 20)
    first, *others = (
        [event.what]
        if room is None
        else textwrap.wrap(event.what, room, break_on_hyphens=False) or [""]
    )
    return [head + first, *(" " * _WHAT_COLUMN + other for other in others)]
