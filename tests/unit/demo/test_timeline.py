"""
The timeline keeps what happened, and measures the time without acks.
"""

from __future__ import annotations

import pytest

from pystore.demo.timeline import (
    EVENT_HEADER,
    NEVER_RUN,
    AckGap,
    BrokerState,
    LaneSpan,
    Timeline,
    TimelineEvent,
    event_lines,
)

MASTER, SLAVE = BrokerState("master", 1, 1), BrokerState("following", 1, 1)


def test_a_broker_is_one_thing_after_the_other_up_to_the_end() -> None:
    """
    The same again changes nothing, and a broker that never ran has no span.
    """
    timeline = Timeline((1, 2))
    assert NEVER_RUN == timeline.state(1)
    assert timeline.change(1.0, 1, SLAVE)
    assert not timeline.change(1.5, 1, SLAVE)
    assert timeline.change(2.0, 1, MASTER)
    timeline.end_s = 5.0

    assert MASTER == timeline.state(1)
    assert [LaneSpan(1.0, 2.0, SLAVE), LaneSpan(2.0, 5.0, MASTER)] == list(
        timeline.spans(1)
    )
    assert [] == list(timeline.spans(2))


def test_a_change_within_no_time_has_no_span() -> None:
    """
    A picture shows no area without a width.
    """
    timeline = Timeline((1,), end_s=2.0)
    timeline.change(1.0, 1, SLAVE)
    timeline.change(1.0, 1, MASTER)

    assert [LaneSpan(1.0, 2.0, MASTER)] == list(timeline.spans(1))


@pytest.mark.parametrize(
    ("since_s", "until_s", "expected"),
    [
        (0.0, 9.0, AckGap(1.25, 3.0)),
        (1.5, 1.6, AckGap(1.25, 3.0)),
        (3.1, 9.0, AckGap(3.0, 3.5)),
        (0.0, 1.1, AckGap(1.0, 1.25)),
        (4.0, 9.0, None),
    ],
)
def test_the_longest_gap_is_one_that_reaches_into_the_interval(
    since_s: float, until_s: float, expected: AckGap | None
) -> None:
    """
    Also if it began before: the last ack may have come long before a kill.
    """
    acks = [(at_s, 1) for at_s in (1.0, 1.25, 3.0, 3.5)]
    timeline = Timeline((1,), acks=acks, end_s=9.0)

    assert expected == timeline.longest_gap(since_s, until_s)


def test_a_gap_knows_its_length_and_the_time_after_its_cause() -> None:
    """
    Both in seconds.
    """
    gap = AckGap(1.0, 3.0, "kill", 2.5)

    assert (2.0, 0.5) == (gap.seconds, gap.after_s)


def test_acknowledged_records_are_counted_by_steps() -> None:
    """
    Every record is in one step, those at the end too.
    """
    acks = [(0.05, 3), (0.31, 4), (0.39, 1), (1.0, 2)]
    timeline = Timeline((1,), acks=acks, end_s=1.0)

    assert [3, 0, 0, 5, 0, 0, 0, 0, 0, 0, 2] == timeline.acked_per(0.1)


def test_a_line_has_the_seconds_who_and_what_below_each_other() -> None:
    """
    The header, too.
    """
    event = TimelineEvent(12.3456, "broker 1", "master in epoch 2")

    assert ["  12.346  broker 1      master in epoch 2"] == event_lines(event)
    assert EVENT_HEADER.index("what") == event_lines(event)[0].index("master")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_long_line_continues_below_its_text(width: int) -> None:
    """
    No line is wider than the terminal, and no word is lost.
    """
    words = " ".join(f"word{number}" for number in range(40))
    first, *others = event_lines(TimelineEvent(1, "writer", words), width)

    assert all(len(line) <= width for line in (first, *others))
    at = EVENT_HEADER.index("what")
    assert words == " ".join([first[at:], *(line[at:] for line in others)])
    assert {""} == {line[:at].strip() for line in others}
