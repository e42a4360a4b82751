"""
Ends of records, to round acks down to.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pystore.ha.insync.record_ends import RecordEnds


def test_an_offset_is_rounded_down_to_the_end_of_a_record() -> None:
    """
    A1: below the first one nothing is known.
    """
    ends = RecordEnds(100)
    ends.add(200)
    ends.add(150)
    ends.add(300)

    found = [ends.floor(offset) for offset in (99, 100, 199, 200, 299, 300, 999)]
    assert [None, 100, 100, 200, 200, 300, 300] == found
    assert 300 == ends.newest


def test_unneeded_ends_are_forgotten() -> None:
    """
    But for the newest, which is the end of the log.
    """
    ends = RecordEnds(100)
    ends.add(200)
    ends.forget_below(150)
    assert 100 == ends.floor(150)
    ends.forget_below(200)
    assert ends.floor(150) is None
    ends.forget_below(900)

    assert 200 == ends.newest


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=200),
    st.integers(2, 20),
    st.data(),
)
def test_rounding_is_never_up_and_never_to_the_middle(
    sizes: list[int], count_max: int, data: st.DataObject
) -> None:
    """
    However many were forgotten; at the end of the log it is exact.
    """
    ends, all_ends = RecordEnds(0, count_max), [0]
    for size in sizes:
        all_ends.append(all_ends[-1] + size)
        ends.add(all_ends[-1])
    offset = data.draw(st.integers(0, all_ends[-1]))

    found = ends.floor(offset)
    assert found in all_ends
    assert found is not None
    assert found <= offset
    assert all_ends[-1] == ends.floor(all_ends[-1])
