"""
Which segments may go, by age and by size.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pystore.errors import InvalidError
from pystore.store.retention import Retention, delete_before

HOUR_MS = 3_600_000
NOW_MS = 100 * HOUR_MS


def _deleted(
    ages_hours: Sequence[float | None],
    retention: Retention,
    now_ms: int = NOW_MS,
    asked: list[int] | None = None,
) -> int | None:
    """
    The answer for segments of 1000 bytes, the last record of each so old.
    """

    def last_ms(base: int) -> int | None:
        if asked is not None:
            asked.append(base)
        age = ages_hours[base // 1000]
        return None if age is None else NOW_MS - int(age * HOUR_MS)

    bases = range(0, 1000 * len(ages_hours), 1000)
    return delete_before(bases, 1000, last_ms, retention, now_ms)


@pytest.mark.parametrize(
    ("ages", "expected"),
    [
        ((90, 80, 10, 1), 2000),
        ((73, 72, 71.99, 1), 2000),
        ((71, 80, 90, 1), None),
        ((90, 71, 80, 1), 1000),
        ((90, 80, 70, 90), 2000),
        ((90, 80, 80, 80), 3000),
        ((80,), None),
        ((), None),
    ],
)
def test_old_segments_are_deleted_at_the_front_but_never_the_active_one(
    ages: tuple[float, ...], expected: int | None
) -> None:
    """
    72 hours unless said otherwise, to the millisecond; one young segment protects
    all behind it, and a store time that falls back does not make a segment old.
    """
    assert expected == _deleted(ages, Retention())


def test_a_segment_without_a_record_is_deleted_with_those_before_it() -> None:
    """
    It has no record; after a young segment it stays.
    """
    assert 2000 == _deleted((90, None, 1, 0), Retention())
    assert None is _deleted((1, None, 0), Retention())


@pytest.mark.parametrize(
    ("total_bytes_max", "expected"),
    [(4000, None), (3999, 1000), (3000, 1000), (2000, 2000), (0, 3000)],
)
def test_the_oldest_are_deleted_until_the_rest_fits(
    total_bytes_max: int, expected: int | None
) -> None:
    """
    However young they are; what is left may be the active segment alone.
    """
    retention = Retention(None, total_bytes_max)

    assert expected == _deleted((1, 1, 1, 1), retention)


def test_age_and_size_are_reasons_of_their_own() -> None:
    """
    A segment that one limit keeps may exceed the other.
    """
    ages = (90, 80, 3, 2, 1)

    assert 2000 == _deleted(ages, Retention(72, 5000))
    assert 3000 == _deleted(ages, Retention(72, 2000))
    assert None is _deleted(ages, Retention(None, None))


def test_a_clock_that_is_behind_keeps_segments() -> None:
    """
    Records from the future are young.
    """
    assert None is _deleted((90, 80, 70), Retention(), 0)


@pytest.mark.parametrize("limits", [(-1, None), (72, -1)])
def test_negative_limits_are_refused(limits: tuple[int, int | None]) -> None:
    """
    A negative limit has no meaning.
    """
    with pytest.raises(InvalidError, match="cannot be negative"):
        Retention(*limits)


def test_segments_out_of_order_are_refused() -> None:
    """
    The front would not be the oldest.
    """
    with pytest.raises(InvalidError, match="segment 0 comes after 1000"):
        delete_before([1000, 0], 1000, lambda _: None, Retention(), NOW_MS)


def test_only_the_ages_that_decide_are_asked_for() -> None:
    """
    Those of the segments that go and of the first that stays, whatever their number.
    """
    asked: list[int] = []
    _deleted((90, 80, *[1.0] * 998), Retention(), asked=asked)
    assert [0, 1000, 2000] == asked

    asked.clear()
    _deleted([90.0] * 1000, Retention(None, 500_000), asked=asked)
    assert [] == asked
