"""
A segment whose bytes are not all there: the rest is read, and what is missing is one
damage, with the core and without.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from lib.spark.reading import make_store, read
from lib.store.logs import SEGMENT_SIZE

from pystore.errors import CorruptError
from pystore.spark.scan import task
from pystore.spark.scan.python_segment import PythonSegment

COLUMNS = ["offset", "size", "topic", "damage"]


def segment(root: Path, number: int) -> Path:
    """
    The file of a segment.
    """
    return root / "commitlog" / f"{number * SEGMENT_SIZE:020}"


@pytest.fixture(params=[True, False], ids=["core", "Python"])
def has_core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """
    Whether the core reads what is there.
    """
    if not request.param:
        monkeypatch.setattr(task, "_open", PythonSegment)
    return bool(request.param)


@pytest.mark.usefixtures("has_core")
@pytest.mark.parametrize("split_bytes", [0, 5000])
@pytest.mark.parametrize("left", [0, 1, 5000, SEGMENT_SIZE - 1])
def test_the_rest_of_a_short_segment_is_read(
    tmp_path: Path, left: int, split_bytes: int
) -> None:
    """
    In splits of any size, each record and the damage once.
    """
    root = make_store(tmp_path)
    options: dict[str, Any] = {"split_bytes": split_bytes} if split_bytes else {}
    whole = [(row["offset"], row["size"]) for row in read(root, ["offset", "size"])]
    os.truncate(segment(root, 1), left)
    low, high = SEGMENT_SIZE + left, 2 * SEGMENT_SIZE
    here = [(at, size) for at, size in whole if at + size <= low or at >= high]

    rows = read(root, COLUMNS, on_damage="report", **options)

    assert here == [(row["offset"], row["size"]) for row in rows if not row["damage"]]
    gone = [at for at, size in whole if (at, size) not in here]
    damages = [row for row in rows if row["damage"]]
    if left == SEGMENT_SIZE - 1:  # a part of the blank record is missing
        assert [] == gone == damages
        return
    (damage,) = damages
    assert f"the file has {left} bytes" in damage["damage"]
    assert min([low, *gone]) == damage["offset"]
    assert high == damage["offset"] + damage["size"]


@pytest.mark.usefixtures("has_core")
def test_a_missing_segment_is_one_damage(tmp_path: Path) -> None:
    """
    An error names the file and what to do; skipping leaves out only its records.
    """
    root = make_store(tmp_path)
    whole = [row["offset"] for row in read(root, ["offset"])]
    segment(root, 1).unlink()
    inside = range(SEGMENT_SIZE, 2 * SEGMENT_SIZE)

    skipped = read(root, ["offset"], on_damage="skip")

    assert [at for at in whole if at not in inside] == [
        row["offset"] for row in skipped
    ]
    with pytest.raises(CorruptError, match="the segment is missing: restore it") as one:
        read(root, ["offset"])
    assert (SEGMENT_SIZE, str(segment(root, 1))) == (one.value.offset, one.value.path)
    start, stop = SEGMENT_SIZE + 100, 2 * SEGMENT_SIZE - 100
    rows = read(root, COLUMNS, on_damage="report", from_offset=start, to_offset=stop)
    assert [(start, stop - start)] == [(row["offset"], row["size"]) for row in rows]
    part = read(root, ["offset"], from_offset=2 * SEGMENT_SIZE)
    assert [at for at in whole if at >= 2 * SEGMENT_SIZE] == [
        row["offset"] for row in part
    ]
