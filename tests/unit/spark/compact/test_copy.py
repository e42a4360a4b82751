"""
Copies of records to their places.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from lib.spark.compaction import CHOICE, LocalJobs, make_store

from pystore.errors import CorruptError, OffsetOutOfRange
from pystore.spark.compact import copy as copying
from pystore.spark.compact.checkpoint import CompactionWork, begin_work
from pystore.spark.compact.copy import COPIED_OF, copy_records, marker_name
from pystore.spark.compact.layout import QueueLayout, parse_layout
from pystore.spark.compact.output import prepare_output
from pystore.spark.compact.plan import make_plan


@pytest.fixture
def work(tmp_path: Path) -> CompactionWork:
    """
    Work on a store, planned and ready for copies.
    """
    (tmp_path / "out").mkdir()
    plan = make_plan(make_store(tmp_path), CHOICE)
    work = begin_work(tmp_path / "out", plan)
    work.save_layouts(
        one
        for one in map(parse_layout, LocalJobs().lay_out(work))
        if isinstance(one, QueueLayout)
    )
    prepare_output(work, work.layouts() or [])
    return work


def copy_rows(
    work: CompactionWork, table: pa.Table, step: int = 50
) -> list[dict[str, int]]:
    """
    Copies rows of a layout, in batches of a given size.
    """
    names = {layout.hash: layout.folder for layout in work.layouts() or []}
    batches = table.to_batches(step)
    return [
        row
        for batch in copy_records(batches, work.plan, names, work.folder)
        for row in batch.to_pylist()
    ]


def rows(work: CompactionWork) -> pa.Table:
    """
    The places of all records, by segment and offset.
    """
    table = pyarrow.parquet.read_table(work.rows)
    table = table.filter(pa.compute.field("kind") == 1).select(COPIED_OF)
    return table.sort_by([("segment", "ascending"), ("offset", "ascending")])


def contents(work: CompactionWork) -> dict[str, bytes]:
    """
    The content of every output file.
    """
    return {
        path.relative_to(work.output).as_posix(): path.read_bytes()
        for path in sorted(work.output.rglob("*"))
        if path.is_file()
    }


def test_the_copies_do_not_depend_on_the_batches(
    work: CompactionWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Row by row or all at once, in large or small parts, and again.
    """
    found = []
    for step, part, gap in ((1, 1, 1), (7, 3000, 500), (10**6, 1 << 26, 1 << 20)):
        monkeypatch.setattr(copying, "_PART_BYTES", part)
        monkeypatch.setattr(copying, "_GAP_BYTES", gap)
        answers = copy_rows(work, rows(work), step)
        found.append((answers, contents(work)))
        # Bytes that the next copy does not write would differ.
        for name in contents(work) if step < 10**6 else ():
            path = work.output / name
            os.truncate(path, 0)
            os.truncate(path, len(found[0][1][name]))
        prepare_output(work, work.layouts() or [])

    assert found[0] == found[1] == found[2]


def test_each_copied_segment_has_a_marker_file(work: CompactionWork) -> None:
    """
    It holds the counts; drafts are removed.
    """
    table = rows(work)
    only = table.filter(pa.compute.field("segment") == 2)

    (answer,) = copy_rows(work, only)

    assert {2: (answer["records"], answer["bytes"])} == work.copied()
    assert only.num_rows == answer["records"]
    assert sum(only.column("size").to_pylist()) == answer["bytes"]
    name = marker_name(work.plan.bases[2])
    assert [name] == [path.name for path in (work.folder / "copied").iterdir()]


def test_a_second_attempt_writes_the_same_bytes(work: CompactionWork) -> None:
    """
    Even while the first attempt still runs.
    """
    copy_rows(work, rows(work))
    before = contents(work)
    names = {layout.hash: layout.folder for layout in work.layouts() or []}
    batches = rows(work).to_batches(20)

    attempts = [copy_records(batches, work.plan, names, work.folder) for _ in range(2)]
    for pair in zip(*attempts, strict=True):
        assert pair[0] == pair[1]

    assert before == contents(work)


def test_a_record_that_changed_is_not_copied(work: CompactionWork) -> None:
    """
    The segment gets no marker file, and no file stays open.
    """
    path = Path(work.plan.store) / "commitlog" / f"{work.plan.bases[1]:020d}"
    table = rows(work).filter(pa.compute.field("segment") == 1)
    at = table.column("offset")[0].as_py() - work.plan.bases[1]
    content = bytearray(path.read_bytes())
    content[at + 30] ^= 1
    path.write_bytes(content)
    before = len(os.listdir("/dev/fd"))

    with pytest.raises(CorruptError, match="record at offset"):
        copy_rows(work, table)

    assert {} == work.copied()
    assert before == len(os.listdir("/dev/fd"))


def test_a_copy_of_a_deleted_segment_is_an_error(work: CompactionWork) -> None:
    """
    Retention deleted it.
    """
    (Path(work.plan.store) / "commitlog" / f"{0:020d}").unlink()

    with pytest.raises(OffsetOutOfRange):
        copy_rows(work, rows(work))


def test_without_rows_nothing_is_copied() -> None:
    """
    A task may have no rows.
    """
    assert [] == list(copy_records([], None, {}, Path("/")))  # type: ignore[arg-type]
