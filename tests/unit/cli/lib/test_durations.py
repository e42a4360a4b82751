"""
Durations on the command line, and moments as text.
"""

from __future__ import annotations

import click
import pytest

from pystore.cli.lib.durations import (
    moment_text,
    parse_duration,
    since_text,
    span_text,
    until_text,
    utc_text,
)

CONTEXT = click.Context(click.Command("x"))
OPTION = click.Option(["--for"])
AT = 1_772_355_612_345


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1", 1), ("90s", 90), ("30m", 1800), ("5min", 300), ("2H", 7200), ("7d", 604800)],
)
def test_a_duration_is_read_with_its_unit(text: str, seconds: int) -> None:
    """
    In either case; seconds without one.
    """
    assert seconds == parse_duration(CONTEXT, OPTION, text)


def test_a_missing_duration_is_none() -> None:
    """
    The option was not given.
    """
    assert parse_duration(CONTEXT, OPTION, None) is None


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5h", "ever", "2w", "367d"])
def test_an_invalid_duration_is_refused_with_an_example(text: str) -> None:
    """
    One line says which values are valid.
    """
    with pytest.raises(click.BadParameter, match="give seconds, or 90s, 30m, 2h, 7d"):
        parse_duration(CONTEXT, OPTION, text)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "0 s"),
        (45_900, "45 s"),
        (60_000, "1 min"),
        (65_000, "1 min 5 s"),
        (1_265_000, "21 min"),
        (7_500_000, "2 h 5 min"),
        (7_200_000, "2 h"),
        (273_600_000, "3 d 4 h"),
        (259_200_000, "3 d"),
    ],
)
def test_a_duration_is_shown_in_its_two_largest_units(ms: int, text: str) -> None:
    """
    Rounded down.
    """
    assert text == span_text(ms)


def test_a_moment_is_shown_from_now_and_as_it_is() -> None:
    """
    A person compares the one with a clock, and the other one with logs.
    """
    at = "2026-03-01 09:00:12 UTC"
    assert f"5 min ago ({at})" == moment_text(AT, AT + 300_000)
    assert f"in 2 h ({at})" == moment_text(AT, AT - 7_200_000)
    assert f"5 min, since {at}" == since_text(AT, AT + 300_000)
    assert f"2 h, until {at}" == until_text(AT, AT - 7_200_000)


def test_a_time_that_is_none_is_shown_as_a_number() -> None:
    """
    A record may hold any.
    """
    assert "millisecond 1152921504606846976" == utc_text(1 << 60)
