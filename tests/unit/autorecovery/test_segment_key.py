"""
The keys of AutoRecovery.
"""

from __future__ import annotations

import pytest

from pystore.autorecovery.segment_key import (
    DEAD,
    DISABLED,
    KICK,
    LOCKS,
    MARKS,
    SETTINGS,
    SPACE,
    WINDOW,
    SegmentKey,
    page_key,
)
from pystore.errors import FormatError, InvalidError
from pystore.records.spaces import space_of


@pytest.mark.parametrize(
    ("cluster", "name"),
    [
        ("c", "s"),
        ("a/b", "c"),
        ("a", "b/c"),
        (
            "ä %",
            "..",
        ),
        ("\ud800", ":1"),
    ],
)
def test_a_segment_comes_back_from_its_key(cluster: str, name: str) -> None:
    """
    Whatever its names are.
    """
    key = SegmentKey(cluster, name, 3 << 30)

    assert key == SegmentKey.parse(key.text)
    assert key.mark == MARKS + key.text
    assert key.lock == LOCKS + key.text
    assert key.dead == DEAD + key.text
    assert key.text.endswith("/00000000003221225472")
    assert 2 == key.text.count("/")


def test_a_name_does_not_look_like_a_part_of_another_key() -> None:
    """
    A slash in it is escaped.
    """
    assert SegmentKey("a/b", "c", 0).text != SegmentKey("a", "b/c", 0).text


@pytest.mark.parametrize(
    "text",
    ["", "a", "a/b", "a/b/1", f"a/b/{0:020}/c", f"a b/c/{0:020}", "a/b/" + "٣" * 20],
)
def test_other_texts_are_no_segments(text: str) -> None:
    """
    Also such that only look like one.
    """
    with pytest.raises(FormatError, match="is not CLUSTER/SET/START"):
        SegmentKey.parse(text)


def test_names_that_are_too_long_and_starts_below_zero_are_refused() -> None:
    """
    Before anything is written.
    """
    with pytest.raises(InvalidError, match="bytes"):
        _ = SegmentKey("c" * 300, "s", 0).mark
    for start in (-1, 10**20):
        with pytest.raises(InvalidError, match="cannot begin"):
            SegmentKey("c", "s", start)


def test_all_keys_are_in_one_space() -> None:
    """
    That of a wait; the controller's keys are in another one.
    """
    keys = [MARKS, LOCKS, DEAD, WINDOW, SETTINGS, DISABLED, KICK, page_key(7)]

    assert {SPACE} == set(map(space_of, keys))
    assert "recovery/window/007" == page_key(7)
