"""
Refusals are counted, and said once a minute for each source.
"""

from __future__ import annotations

from pystore.access.refusals import SOURCES_MAX, RefusalCounts


def test_the_first_is_said_at_once_and_the_rest_once_a_minute() -> None:
    """
    With the count of each reason.
    """
    said: list[str] = []
    counts = RefusalCounts(said.append)
    for number in range(1000):
        counts.note("10.0.0.1", "it is not signed", number / 100)
    counts.note("10.0.0.1", "another reason", 11.0)
    counts.flush(59.0)
    assert ["request of 10.0.0.1 refused: it is not signed"] == said
    counts.flush(60.0)
    assert said[1:] == [
        "1000 more requests of 10.0.0.1 in 60 s: 999 times refused: it is not signed, "
        "1 times refused: another reason"
    ]
    assert 1001 == counts.total


def test_a_source_that_ended_is_forgotten() -> None:
    """
    And said again when it comes back.
    """
    said: list[str] = []
    counts = RefusalCounts(said.append)
    counts.note("a", "x", 0.0)
    counts.flush(60.0)
    counts.note("a", "x", 61.0)
    assert ["request of a refused: x"] * 2 == said


def test_many_sources_fill_neither_memory_nor_log() -> None:
    """
    What is too many is counted together.
    """
    said: list[str] = []
    counts = RefusalCounts(said.append)
    for number in range(10 * SOURCES_MAX):
        counts.note(f"10.0.{number >> 8}.{number & 255}", "x", 0.0)
    assert SOURCES_MAX + 1 == len(said)
    assert "other addresses" in said[-1]
    counts.flush(60.0)
    assert f"{9 * SOURCES_MAX - 1} more requests of other addresses" in said[-1]


def test_what_another_mode_would_refuse_is_said_as_such() -> None:
    """
    So an operator sees who has no credentials yet.
    """
    said: list[str] = []
    counts = RefusalCounts(said.append)
    counts.note("a", "x", 0.0, is_refused=False)
    counts.note("a", "x", 1.0, is_refused=False)
    counts.flush(60.0)
    assert said == [
        "request of a would be refused: x",
        "1 more requests of a in 60 s: 1 times would be refused: x",
    ]
