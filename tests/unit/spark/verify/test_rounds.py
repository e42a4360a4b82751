"""
Rounds as Parquet, and the choice for the next round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from pystore.errors import InvalidError, StorageError
from pystore.spark.verify.rounds import (
    AUDIT,
    last_verified,
    next_round,
    oldest_first,
    write_round,
)
from pystore.spark.verify.run import VerifyRun
from pystore.spark.verify.task import SegmentTask, StoreShare
from pystore.spark.verify.verdicts import SegmentVerdict, Verdict

BAD = SegmentVerdict(
    "g",
    "/s",
    4096,
    Verdict.CORRUPT,
    is_bad=True,
    checked_bytes=10,
    blocks=(3, 5),
    evidence=["one", "two"],
)
FINE = SegmentVerdict("g", "/s", 0, Verdict.OK, checked_bytes=10)
ORPHAN = SegmentVerdict("g", "/s", None, Verdict.ORPHAN, name="x", checked_bytes=1)


def _round(number: int, *verdicts: SegmentVerdict, began: float = 1e9) -> VerifyRun:
    return VerifyRun(number, list(verdicts), ["/s"], 1.5, began)


def test_a_round_is_read_back_by_any_parquet_reader(tmp_path: Path) -> None:
    """
    Every field is there, and the number comes from the folder's name.
    """
    write_round(tmp_path, _round(7, BAD, FINE, ORPHAN))

    table = ds.dataset(tmp_path / AUDIT, partitioning="hive").to_table()

    rows = {row["segment"]: row for row in table.to_pylist()}
    assert {7} == {row["round"] for row in rows.values()}
    assert ("CORRUPT", [3, 5], ["one", "two"]) == (
        rows[4096]["verdict"],
        rows[4096]["blocks"],
        rows[4096]["evidence"],
    )
    assert "x" == rows[None]["name"]
    assert datetime.fromtimestamp(1e9, UTC) == rows[0]["verifiedAt"]


def test_rounds_are_numbered_from_the_last_one_on(tmp_path: Path) -> None:
    """
    Other files in the folder do not matter.
    """
    assert 0 == next_round(tmp_path)
    write_round(tmp_path, _round(0, FINE))
    write_round(tmp_path, _round(9, FINE))
    (tmp_path / AUDIT / "round=x").mkdir()
    (tmp_path / AUDIT / ".round=11.99").mkdir()

    assert 10 == next_round(tmp_path)


def test_a_round_is_never_written_over(tmp_path: Path) -> None:
    """
    If two jobs write into one folder, the second one fails.
    """
    write_round(tmp_path, _round(0, FINE))

    with pytest.raises(InvalidError, match="does another job write"):
        write_round(tmp_path, _round(0, BAD))

    assert ["round=0"] == [path.name for path in (tmp_path / AUDIT).iterdir()]


def test_a_round_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """
    The error names the folder.
    """
    (tmp_path / AUDIT).write_text("a file in the way")

    with pytest.raises(StorageError, match="round=0"):
        write_round(tmp_path, _round(0, FINE))


def test_the_last_round_that_checked_a_segment_dates_it(tmp_path: Path) -> None:
    """
    A row that checked no bytes does not count, nor one without an answer or a segment.
    """
    write_round(tmp_path, _round(0, FINE, BAD, ORPHAN, began=100.0))
    write_round(tmp_path, _round(1, FINE, began=200.0))
    nothing = replace(BAD, checked_bytes=0)
    write_round(tmp_path, _round(2, nothing, began=300.0))
    unknown = replace(FINE, verdict=Verdict.UNKNOWN, checked_bytes=100)
    write_round(tmp_path, _round(3, unknown, began=400.0))

    times = {key: time.timestamp() for key, time in last_verified(tmp_path).items()}

    assert {("/s", 0): 200.0, ("/s", 4096): 100.0} == times


def test_without_rounds_nothing_was_verified(tmp_path: Path) -> None:
    """
    The folder may be missing.
    """
    assert {} == last_verified(tmp_path / "none")


def test_a_damaged_round_is_a_one_line_error(tmp_path: Path) -> None:
    """
    The error names the folder.
    """
    write_round(tmp_path, _round(0, FINE))
    (tmp_path / AUDIT / "round=0" / "verdicts.parquet").write_bytes(b"PAR1 no")

    with pytest.raises(InvalidError, match="cannot read the rounds"):
        last_verified(tmp_path)


def _tasks() -> Iterator[SegmentTask]:
    for store in ("/a", "/b"):
        share = StoreShare(store, "g")
        for base in (0, 100, 200):
            yield SegmentTask(share, base, base + 100, base)


def test_replicas_of_a_segment_are_checked_in_one_round() -> None:
    """
    Otherwise they could not be compared.
    """
    chosen = oldest_first({}, 250)(list(_tasks()))

    assert [("/a", 0), ("/b", 0)] == [(t.share.store, t.base) for t in chosen]


def test_the_oldest_segments_come_first() -> None:
    """
    A segment that was never checked is the oldest.
    """
    old, new = datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC)
    verified = {("/a", 0): new, ("/b", 0): new, ("/a", 100): old, ("/b", 100): old}

    bases = [task.base for task in oldest_first(verified, None)(list(_tasks()))]

    assert [200, 200, 100, 100, 0, 0] == bases


def test_a_round_checks_one_segment_at_least() -> None:
    """
    Even if the budget is smaller: otherwise no segment would ever be checked.
    """
    assert 2 == len(oldest_first({}, 1)(list(_tasks())))


def test_rounds_under_a_budget_reach_every_segment(tmp_path: Path) -> None:
    """
    The rounds remember which segments were checked.
    """
    seen = []
    for number in range(3):
        chosen = oldest_first(last_verified(tmp_path), 200)(list(_tasks()))
        seen += [task.base for task in chosen]
        rows = [
            SegmentVerdict("g", t.share.store, t.base, Verdict.OK, checked_bytes=100)
            for t in chosen
        ]
        write_round(tmp_path, _round(number, *rows, began=number + 1.0))

    assert [0, 0, 100, 100, 200, 200] == seen
