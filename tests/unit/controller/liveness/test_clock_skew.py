"""
Granted time and waited time.
"""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from pystore.controller.liveness.clock_skew import FAST, SLOW, granted, waited

lengths = st.integers(0, 10**14)


def test_two_elevenths_are_taken_off() -> None:
    """Of ten seconds, and of a session of six."""
    assert 8_181 == granted(10_000)
    assert 4_909 == granted(6_000)
    assert 9_999 == waited(8_181)
    assert 10_000 == waited(8_182) - 1


@given(lengths)
def test_granted_time_ends_before_waited_time(length: int) -> None:
    """On the slowest clock and on the fastest."""
    slowest, fastest = Fraction(SLOW, 10), Fraction(FAST, 10)

    assert granted(length) / slowest <= length / fastest
    assert length / slowest <= waited(length) / fastest
    assert granted(length + 2) / slowest > length / fastest
