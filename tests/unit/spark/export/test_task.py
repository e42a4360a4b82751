"""
The files of a task, and splits packed into tasks.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from lib.command_line import overwrite, segment_file
from lib.spark.exports import SEGMENT, Growing

from pystore.errors import CorruptError, StorageError
from pystore.spark.export.commit import ExportShape
from pystore.spark.export.task import ExportTask, TaskResult, pack_tasks, write_task
from pystore.spark.plan.options import SourceOptions
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.split import Split
from pystore.spark.plan.splits import plan_splits

SHAPE = ExportShape(("offset", "keys", "body"), (), "zstd")


@pytest.fixture
def store(tmp_path: Path) -> Growing:
    """
    A store of 300 records in several segments.
    """
    return Growing.new(tmp_path / "store", 300)


def task(
    store: Growing, shape: ExportShape = SHAPE, on_damage: str = "fail"
) -> ExportTask:
    """
    A task for a whole store.
    """
    options = SourceOptions((str(store.root),))
    splits = plan_splits([store.root], options, Selection(), with_epochs=False)
    folder = store.root.parent / "attempts"
    folder.mkdir(exist_ok=True)
    return ExportTask(tuple(splits), shape, on_damage, str(folder), "part")


def rows(result: TaskResult) -> list[tuple[str | None, int, bytes]]:
    """
    The rows of a result, in the order of the log.
    """
    found = [
        (file.part.topic, row["offset"], row["body"])
        for file in result.files
        for row in pq.read_table(Path(result.folder) / file.name).to_pylist()
    ]
    return sorted(found, key=lambda row: row[1])


def test_a_task_writes_its_records_by_topic(store: Growing) -> None:
    """
    Each record once, with the requested columns.
    """
    result = write_task(task(store))

    assert store.records == rows(result)
    assert ["T0", "T1", "T2"] == sorted(str(file.part.topic) for file in result.files)
    assert str(store.root) == result.store


def test_each_attempt_has_a_folder_of_its_own(store: Growing) -> None:
    """
    A retry does not see the files of the first attempt.
    """
    one, other = write_task(task(store)), write_task(task(store))

    assert one.folder != other.folder
    assert rows(one) == rows(other)


def test_only_topics_that_match_are_written(store: Growing) -> None:
    """
    The patterns are those of a shell.
    """
    shape = ExportShape(("offset", "body"), ("T[12]", "X*"), "none")

    result = write_task(task(store, shape))

    assert [one for one in store.records if one[0] != "T0"] == rows(result)


def test_damage_ends_a_task_or_is_reported(store: Growing) -> None:
    """
    The records around it are written.
    """
    at = store.offsets[150]
    overwrite(segment_file(store.root, at // SEGMENT * SEGMENT), at % SEGMENT, b"oops")

    with pytest.raises(CorruptError, match=f"offset {at}"):
        write_task(task(store))
    result = write_task(task(store, on_damage="report"))

    assert store.records[:150] == rows(result)[:150]
    assert at == result.damages[0].offset
    assert len(rows(result)) < 300


def test_a_late_attempt_cannot_write(store: Growing) -> None:
    """
    Its run is over: the folder was removed, and no task makes it again.
    """
    late = task(store)
    Path(late.folder).rmdir()

    with pytest.raises(StorageError, match="--into"):
        write_task(late)
    assert not Path(late.folder).exists()


def test_neighbouring_splits_share_a_task_and_stores_do_not(tmp_path: Path) -> None:
    """
    Each task writes its own files, so there are no more tasks than needed.
    """
    splits = [
        Split(store, base, 100, base, base + 100, 1000)
        for store in ("a", "b")
        for base in range(0, 1000, 100)
    ]

    few = pack_tasks(splits, SHAPE, "fail", tmp_path, 1)
    many = pack_tasks(splits, SHAPE, "fail", tmp_path, 7)

    assert [10, 10] == [len(one.splits) for one in few]
    assert 7 <= len(many) <= 9
    assert splits == [split for one in many for split in one.splits]
    assert len(many) == len({one.stem for one in many})
    assert [] == pack_tasks([], SHAPE, "fail", tmp_path, 2)
