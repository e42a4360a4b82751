"""
Runs of an export, one after another, without Spark.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from lib.oracle.golden_data import GoldenStore
from lib.spark.exports import SEGMENT, Growing, export_here, run_here, visible

from pystore.errors import CutError, InvalidError, StorageError
from pystore.spark.export.resume import ExportBounds
from pystore.spark.export.run import ExportRequest, run_export
from pystore.spark.export.task import ExportTask, TaskResult


@pytest.fixture
def store(tmp_path: Path) -> Growing:
    """
    A store of 300 records in several segments.
    """
    return Growing.new(tmp_path / "store", 300)


def test_a_run_begins_where_the_last_one_ended(store: Growing, tmp_path: Path) -> None:
    """
    Each record is exported once, for any number of runs.
    """
    into = tmp_path / "out"

    first = export_here(store.root, into, bodies=True)
    nothing = export_here(store.root, into)
    store.grow(100)
    second = export_here(store.root, into)

    assert nothing is None
    assert first
    assert second
    assert (1, 300, 2, 100) == (first.run, first.records, second.run, second.records)
    found = visible(into)
    assert store.records == [
        (row["topic"], row["offset"], row["body"]) for row in found
    ]
    assert [1] * 300 + [2] * 100 == [row["run"] for row in found]
    assert {str(store.root)} == {row["store"] for row in found}


def test_a_store_of_java_is_exported_field_by_field(
    golden_store: GoldenStore, golden_root: Path, tmp_path: Path
) -> None:
    """
    The columns are those of the table in Spark.
    """
    export_here(golden_root, tmp_path / "out", bodies=True)

    rows = visible(tmp_path / "out")

    assert len(golden_store.records) == len(rows)
    for line, row in zip(golden_store.records, rows, strict=True):
        assert line["offset"] == row["offset"]
        assert line["topic"] == str(row["topic"])
        assert line["properties"] == row["properties"]
        assert line["msgId"] == row["msgId"]
        assert str(row["day"]) == f"{row['storeTimestamp']:%Y-%m-%d}"


def test_several_stores_are_one_export(store: Growing, tmp_path: Path) -> None:
    """
    Each has its own exported end; a new store may join later.
    """
    into = tmp_path / "out"
    (tmp_path / "stores").mkdir()
    other = Growing.new(tmp_path / "stores" / "b", 50)
    export_here(store.root, into)
    store.grow(10)

    second = run_export(
        ExportRequest((str(store.root), str(tmp_path / "stores" / "*")), into),
        run_here,
        2,
    )

    assert second
    assert [10, 50] == [one.records for one in second.ranges]
    assert sorted(store.offsets + other.offsets) == sorted(
        row["offset"] for row in visible(into)
    )


def test_the_first_run_chooses_for_all(store: Growing, tmp_path: Path) -> None:
    """
    Readers need the same columns in all files.
    """
    into = tmp_path / "out"
    export_here(store.root, into, columns=("topic", "offset", "tags"), topics=("T1",))
    store.grow(30)

    export_here(store.root, into)
    for chosen in ({"columns": ("offset",)}, {"topics": ("T*",)}, {"bodies": True}):
        with pytest.raises(
            InvalidError, match="the first run chose the columns offset, tags"
        ):
            export_here(store.root, into, **chosen)

    assert [o for t, o, _ in store.records if t == "T1"] == [
        row["offset"] for row in visible(into)
    ]
    assert {"offset", "tags", "topic", "day", "run"} == set(visible(into)[0])
    with pytest.raises(InvalidError, match="no column to write"):
        export_here(store.root, tmp_path / "none", columns=("topic",))


def test_a_range_without_wanted_records_is_read_once(
    store: Growing, tmp_path: Path
) -> None:
    """
    The next run does not read it again.
    """
    into = tmp_path / "out"

    first = export_here(store.root, into, topics=("nobody",))

    assert first
    assert (0, ()) == (first.records, first.files)
    assert first.positions[str(store.root)].offset > store.offsets[-1]
    assert export_here(store.root, into) is None


def test_allow_gap_records_the_gap_in_the_commit(
    store: Growing, tmp_path: Path
) -> None:
    """
    Retention was faster than the export.
    """
    into = tmp_path / "out"
    export_here(store.root, into, bounds=ExportBounds(0, store.offsets[3]))
    store.delete(SEGMENT)

    found = export_here(store.root, into, bounds=ExportBounds(allow_gap=True))

    assert found
    assert [(store.offsets[3], SEGMENT)] == [
        (gap.from_offset, gap.to_offset) for gap in found.gaps
    ]
    assert [o for o in store.offsets if o >= SEGMENT] == [
        row["offset"] for row in visible(into)
    ][3:]


def test_a_run_is_not_published_if_the_log_is_cut_meanwhile(
    store: Growing, tmp_path: Path
) -> None:
    """
    Its last records may no longer be in the log.
    """
    into = tmp_path / "out"

    def cut_meanwhile(tasks: Sequence[ExportTask]) -> list[TaskResult]:
        results = run_here(tasks)
        store.cut(store.offsets[200])
        store.grow(300)
        return results

    with pytest.raises(CutError, match="nothing was published"):
        run_export(ExportRequest((str(store.root),), into), cut_meanwhile, 2)
    assert [] == visible(into)
    export_here(store.root, into)
    assert store.offsets == [row["offset"] for row in visible(into)]


def test_unused_attempts_are_not_published(store: Growing, tmp_path: Path) -> None:
    """
    Retries and speculative tasks write more files than they return.
    """
    into = tmp_path / "out"

    def twice(tasks: Sequence[ExportTask]) -> list[TaskResult]:
        run_here(tasks)
        return run_here(tasks)

    run_export(ExportRequest((str(store.root),), into), twice, 4)

    assert store.offsets == [row["offset"] for row in visible(into)]
    assert ["_export", "run=1"] == sorted(path.name for path in into.iterdir())


def test_workers_that_write_to_another_directory_are_an_error(
    store: Growing, tmp_path: Path
) -> None:
    """
    Otherwise records would be lost without a sign.
    """
    into = tmp_path / "out"

    def elsewhere(tasks: Sequence[ExportTask]) -> list[TaskResult]:
        results = run_here(tasks)
        for file in Path(results[0].folder).iterdir():
            file.unlink()
        return results

    with pytest.raises(StorageError, match="same path on every host"):
        run_export(ExportRequest((str(store.root),), into), elsewhere, 2)
    assert [] == visible(into)


def test_replicas_in_one_glob_are_exported_once(store: Growing, tmp_path: Path) -> None:
    """
    If the one that was read is gone, another one continues: no record is lost, and none
    is exported twice.
    """
    into = tmp_path / "out"
    (tmp_path / "hosts").mkdir()
    replicas = [tmp_path / "hosts" / name for name in ("a", "b")]
    for number, root in enumerate(replicas, 1):
        shutil.copytree(store.root, root)
        (root / "brokerIdentity").write_text(f"c#set#{number}")

    first = export_here(tmp_path / "hosts" / "*", into)
    shutil.rmtree(replicas[0])
    Growing(replicas[1], [], 300).grow(40)
    second = export_here(tmp_path / "hosts" / "*", into)

    assert first
    assert second
    assert (300, 40) == (first.records, second.records)
    assert ["c#set"] == list(second.positions)
    offsets = [row["offset"] for row in visible(into)]
    assert sorted(offsets) == sorted(set(offsets))
    assert store.offsets == sorted(offsets)[:300]


def test_a_store_at_another_path_is_not_exported_again(
    store: Growing, tmp_path: Path
) -> None:
    """
    Through a link, and after a move.
    """
    into = tmp_path / "out"
    export_here(store.root, into)
    (tmp_path / "link").symlink_to(store.root)
    assert export_here(tmp_path / "link", into) is None
    moved = store.root.rename(tmp_path / "moved")
    assert export_here(moved, into) is None
    Growing(moved, [], 300).grow(5)

    found = export_here(moved, into)

    assert found
    assert 5 == found.records
