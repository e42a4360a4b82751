"""
A store as Arrow batches, without Spark.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from lib.spark.reading import make_store, read

import pystore
from pystore.errors import CorruptError, InvalidError, NotAStoreError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """
    A store of 400 records in several segments.
    """
    return make_store(tmp_path)


def test_the_columns_are_those_of_the_source(root: Path) -> None:
    """
    All of them, with bodies, in offset order.
    """
    table = pystore.arrow_reader(root, include_body=True).read_all()

    wanted = read(root)
    assert list(wanted[0]) == table.schema.names
    assert wanted == table.to_pylist(maps_as_pydicts="strict")


def test_a_reader_reads_only_what_is_wanted(root: Path) -> None:
    """
    Columns in their order, topics, queues, offsets, store times.
    """
    every = pystore.arrow_reader(root, columns=["offset", "storeTimestamp"]).read_all()
    offsets, times = (column.to_pylist() for column in every.columns)

    few = pystore.arrow_reader(
        str(root), columns=("topic", "queueId"), topics=["T[12]"], queue_ids=[2, 3]
    ).read_all()
    part = pystore.arrow_reader(
        root, columns=["offset"], from_offset=offsets[10], to_offset=offsets[20]
    ).read_all()
    at = times[200]
    before = pystore.arrow_reader(root, columns=["offset"], to_time=at)
    after = pystore.arrow_reader(
        root, columns=["offset"], from_time=at.astimezone(UTC).replace(tzinfo=None)
    )

    assert ["topic", "queueId"] == few.schema.names
    assert {("T1", 2), ("T1", 3), ("T2", 2), ("T2", 3)} == {
        (row["topic"], row["queueId"]) for row in few.to_pylist()
    }
    assert offsets[10:20] == part.column(0).to_pylist()
    assert offsets == [
        offset
        for reader in (before, after)
        for offset in reader.read_all().column(0).to_pylist()
    ]
    later = datetime.now(UTC) + timedelta(days=1)
    assert 0 == pystore.arrow_reader(root, from_time=later).read_all().num_rows


def test_other_libraries_take_it_as_it_is(root: Path) -> None:
    """
    By Arrow's C stream; pandas by pyarrow.
    """
    stream = pystore.arrow_reader(root, columns=["offset", "body"], rows_per_batch=90)
    assert 400 == pa.RecordBatchReader.from_stream(stream).read_all().num_rows

    frame = pystore.arrow_reader(root, columns=["topic", "size"]).read_pandas()
    assert (400, ["topic", "size"]) == (len(frame), list(frame.columns))


def test_damage_fails_is_a_row_or_is_left_out(root: Path) -> None:
    """
    The error names the path and the offset.
    """
    victim = read(root, ["offset"])[7]["offset"]
    path = root / "commitlog" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    content[victim + 4] ^= 1
    path.write_bytes(content)

    with pytest.raises(CorruptError, match=f"commitlog/0+: record at offset {victim}"):
        pystore.arrow_reader(root).read_all()
    reported = pystore.arrow_reader(root, on_damage="report").read_all().to_pylist()
    assert [victim] == [row["offset"] for row in reported if row["damage"]]
    assert 399 == pystore.arrow_reader(root, on_damage="skip").read_all().num_rows


def test_wrong_arguments_are_refused_at_once(root: Path, tmp_path: Path) -> None:
    """
    Before the first batch.
    """
    with pytest.raises(InvalidError, match="column 'no' is unknown"):
        pystore.arrow_reader(root, columns=["no"])
    with pytest.raises(InvalidError, match="on_damage 'ignore'"):
        pystore.arrow_reader(root, on_damage="ignore")
    with pytest.raises(InvalidError, match="rows_per_batch 0"):
        pystore.arrow_reader(root, rows_per_batch=0)
    with pytest.raises(NotAStoreError, match="no such directory"):
        pystore.arrow_reader(tmp_path / "none")
