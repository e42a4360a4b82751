"""
Changes of a store while a job reads it: deleted, cut, written, rolled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lib.store.stores import SEGMENT, fill

from pystore.errors import CutError, OffsetOutOfRange, PystoreError
from pystore.message.message import Message
from pystore.spark.plan.options import SourceOptions
from pystore.spark.plan.schema import choose_columns
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.split import Split
from pystore.spark.plan.splits import plan_splits
from pystore.spark.scan import task
from pystore.spark.scan.batches import BatchBuilder
from pystore.spark.scan.python_segment import PythonSegment
from pystore.store.commit_log import CommitLog

MEBIBYTE = 1 << 20


@pytest.fixture(params=["core", "plain"], autouse=True)
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """
    With the core, and as on an executor without the wheel.
    """
    if request.param == "plain":
        monkeypatch.setattr(task, "_open", PythonSegment)
    kind: str = request.param
    return kind


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    """
    A store of several segments that is being written.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        fill(log, 1000)
        yield log


def plan(log: CommitLog) -> list[Split]:
    """
    The splits of the current store.
    """
    options = SourceOptions((str(log.path),))
    return plan_splits([log.path], options, Selection(), with_epochs=False)


def batches(split: Split, **chosen: Any) -> Iterator[pa.RecordBatch]:
    """
    The small batches that a task makes of a split.
    """
    columns = choose_columns(["offset", "body"], with_body=True, with_damage=False)
    return task.read_split(
        split,
        columns,
        Selection(),
        on_damage="fail",
        **{"rows_per_batch": 10} | chosen,
    )


def offsets(found: Iterator[pa.RecordBatch]) -> list[int]:
    """
    The offsets of the records in batches.
    """
    return [offset for batch in found for offset in batch["offset"].to_pylist()]


def test_a_segment_deleted_before_its_task_is_a_one_line_error(log: CommitLog) -> None:
    """
    Or it is skipped on request.
    """
    splits = plan(log)
    log.delete_before(SEGMENT)

    with pytest.raises(OffsetOutOfRange, match=r"0{20}: the segment was deleted bef"):
        offsets(batches(splits[0]))
    assert [] == offsets(batches(splits[0], fail_on_data_loss=False))
    assert SEGMENT == offsets(batches(splits[1]))[0]


def test_a_segment_deleted_under_its_task_is_read_to_its_end(log: CommitLog) -> None:
    """
    The mapping keeps the bytes.
    """
    written = [int(at) for rows in log.scan() for at in rows["offset"]]
    task = batches(plan(log)[0])
    first = offsets(iter([next(task)]))
    log.delete_before(SEGMENT)

    assert [at for at in written if at < SEGMENT] == first + offsets(task)


def test_records_written_meanwhile_are_not_read(log: CommitLog) -> None:
    """
    Even if a segment begins, or the store is closed and opened again.
    """
    written = [int(at) for rows in log.scan() for at in rows["offset"]]
    splits, found = plan(log), list[int]()
    for split in splits:
        task = batches(split)
        found += offsets(iter([next(task)]))
        fill(log, 400, 1000)
        found += offsets(task)
    assert written == found

    log.close()
    with CommitLog(log.path, segment_size=SEGMENT) as again:
        fill(again, 10)
        assert written == [one for split in splits for one in offsets(batches(split))]


@pytest.mark.parametrize("batches_before", [0, 3])
@pytest.mark.parametrize("grows", [False, True])
def test_a_log_cut_under_a_task_is_a_one_line_error(
    batches_before: int, grows: bool, log: CommitLog
) -> None:
    """
    The task may have begun, and other records may be written since. A task that ends
    below the cut continues. With ``failOnDataLoss=false`` a task reads what is below.
    """
    splits = plan(log)
    below, task = batches(splits[0]), batches(splits[1])
    patient = batches(splits[1], fail_on_data_loss=False)
    next(below)
    for _ in range(batches_before):
        next(task)
    written = [int(at) for rows in log.scan() for at in rows["offset"]]
    cut = next(at for at in written if at > SEGMENT + 20_000)
    log.cut(cut)
    if grows:
        fill(log, 500, 1000)

    with pytest.raises(CutError, match=rf"store: .*the log was cut at {cut}"):
        offsets(task)
    assert [at for at in written if SEGMENT <= at < cut] == offsets(patient)
    assert len(offsets(below)) > 200


def test_segments_cut_before_their_task_are_a_one_line_error(
    log: CommitLog, either: str
) -> None:
    """
    Even on another host than the writer's, where the live page is not valid.
    """
    (*_, last) = plan(log)
    elsewhere = Split(
        last.store,
        last.base,
        last.segment_size,
        last.from_offset,
        last.to_offset,
        last.end,
    )
    log.cut(next(iter(log.scan()))["offset"].tolist()[100])

    for split in (last, elsewhere):
        with pytest.raises(CutError, match="the log was cut"):
            offsets(batches(split))
    assert either


def test_records_over_4_mib_are_rows(tmp_path: Path, either: str) -> None:
    """
    A batch holds at least one record of any size.
    """
    size = 6 * MEBIBYTE
    options = {"segment_size": 32 * MEBIBYTE, "message_size_max": 16 * MEBIBYTE}
    with CommitLog(tmp_path / "store", **options) as log:  # type: ignore[arg-type]
        for number in range(7):
            body = bytes([number]) * size
            log.append(Message("T", body, body_size_max=16 * MEBIBYTE))
        found = [
            body
            for split in plan(log)
            for batch in batches(split)
            for body in batch["body"].to_pylist()
        ]

    assert [bytes([number]) * size for number in range(7)] == found
    assert either


def test_a_batch_stays_far_below_the_limits_of_arrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, either: str
) -> None:
    """
    8192 rows of 256 KiB are 2 GiB: batches are made in parts of 64 MiB. The parts are
    counted here, not made.
    """
    made: list[tuple[int, int]] = []

    def count(
        self: BatchBuilder, rows: Sequence[Any], data: memoryview | None
    ) -> pa.RecordBatch:
        assert data is not None
        assert self.schema.names
        made.append((len(rows), len(data)))
        return pa.RecordBatch.from_pydict({"offset": [1], "body": [b""]})

    monkeypatch.setattr(BatchBuilder, "of", count)
    size = MEBIBYTE // 4 if either == "core" else MEBIBYTE
    records = (1 << 30) // size - 2
    _sparse_store(tmp_path / "store", size, records)
    split = Split(str(tmp_path / "store"), 0, 1 << 30, 0, 1 << 30, 1 << 30)
    columns = choose_columns(["offset", "bornHost"], with_body=False, with_damage=False)

    found = task.read_split(
        split, columns, Selection(), on_damage="skip", rows_per_batch=1 << 20
    )

    assert len(list(found)) == len(made) >= 15
    assert records == sum(rows for rows, _ in made)
    assert max(size for _, size in made) <= 64 * MEBIBYTE


def _sparse_store(root: Path, size: int, records: int) -> None:
    """
    A segment of 1 GiB whose bodies are holes: it takes a few MiB.
    """
    root.mkdir()
    with CommitLog(root / "one", segment_size=1 << 21, property_crc=False) as log:
        log.append(Message("T", bytes(size)))
        record = bytes(log.reader.acquire(0, log.end_offset))
    (root / "commitlog").mkdir()
    with (root / "commitlog" / f"{0:020d}").open("wb") as file:
        file.truncate(1 << 30)
        for number in range(records):
            at = number * len(record)
            file.seek(at)
            file.write(record[:28] + at.to_bytes(8) + record[36:200])
            file.seek(at + len(record) - 200)
            file.write(record[-200:])


@pytest.mark.parametrize("content", [b"", b"x" * 100])
def test_a_truncated_segment_is_a_one_line_error(
    content: bytes, log: CommitLog
) -> None:
    """
    Another program truncated it after the splits were planned.
    """
    splits = plan(log)
    log.close()
    (log.path / "commitlog" / f"{SEGMENT:020d}").write_bytes(content)

    with pytest.raises(PystoreError) as raised:
        offsets(batches(splits[1]))
    assert f"{SEGMENT:020d}" in str(raised.value)
    assert "\n" not in str(raised.value)
