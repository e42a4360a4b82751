"""
Findings that need all segments of a store: its queues and its epochs.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lib.spark.checked_store import findings_of, places
from lib.spark.verify_job import SEGMENT, make_replicas
from lib.store.segment_files import end_of, offsets, segment, write
from lib.store.stores import fill

from pystore.core.log_reader import LogReader
from pystore.epochs.file import encode_epochs
from pystore.epochs.table import EpochTable
from pystore.fs.layout import EPOCH_FILE
from pystore.message.message import Message
from pystore.spark.verify.check_store import check_store
from pystore.spark.verify.plan import plan_store, plan_tasks
from pystore.spark.verify.task import SegmentCheck, check_segment
from pystore.spark.verify.verdicts import Finding
from pystore.store.commit_log import CommitLog
from pystore.store.sealer import seal_next

ENTRY = 20


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A sealed store of five segments, the last one not full, with consume queues.
    """
    root = make_replicas(tmp_path_factory.mktemp("store"), 1, with_queues=True)[0]
    with CommitLog(root) as log:
        while seal_next(log.writer):
            pass
    return root


@pytest.fixture
def root(store: Path, tmp_path: Path) -> Path:
    """
    A copy of the store without bounds of pystore and seals, like RocketMQ's.
    """
    return shutil.copytree(
        store, tmp_path / "a", ignore=shutil.ignore_patterns("meta"), symlinks=True
    )


@pytest.fixture
def lone(root: Path) -> Path:
    """
    A copy of the store without consume queues, so without evidence.
    """
    shutil.rmtree(root / "consumequeue")
    return root


# -- queues --------------------------------------------------------------------


def test_a_wrong_entry_is_a_finding_about_the_store(root: Path) -> None:
    """
    The log is undamaged.
    """
    queue = next((root / "consumequeue" / "T1" / "0").iterdir())
    write(queue, 7 * ENTRY + 7, b"\xff")

    found = findings_of(root)

    assert {} == found.by_segment
    (finding,) = found.of_store
    assert "consumeQueue" == finding.kind
    assert "queue offset 7 names" in finding.text


def test_entries_above_a_torn_end_are_not_checked(lone: Path, store: Path) -> None:
    """
    Opening the store cuts them with the log.
    """
    with LogReader(store) as log:
        torn = log.scan(4 * SEGMENT)
        rows = next(iter(torn))
        start = int(rows["offset"][-1])
    write(segment(lone, 4 * SEGMENT), start - 4 * SEGMENT, b"\xff" * 8)
    plan = plan_store(lone)
    checks = {one.base: check_segment(one) for one in plan_tasks([plan])}
    shutil.copytree(store / "consumequeue", lone / "consumequeue")

    found = check_store(plan, checks)

    assert start == found.end
    assert [] == places(found)


def test_queue_offsets_missing_across_damage_are_no_finding(root: Path) -> None:
    """
    The damage is one finding; a missing segment has its own verdict.
    """
    start = offsets(root, SEGMENT, SEGMENT)[7]
    write(segment(root, SEGMENT), start - SEGMENT, bytes(4096))
    segment(root, 3 * SEGMENT).unlink()

    assert [("record", start)] == places(findings_of(root))


def test_queue_offsets_of_an_unreadable_segment_are_not_missing(
    root: Path,
) -> None:
    """
    The other segments are not damaged.
    """

    def lose(checks: dict[int, SegmentCheck]) -> None:
        checks[2 * SEGMENT] = SegmentCheck(str(root), 2 * SEGMENT, error="gone")

    found = findings_of(root, lose)

    assert [] == places(found)
    assert end_of(root) == found.end


def test_a_log_joined_from_two_logs_repeats_queue_offsets(
    root: Path, tmp_path: Path
) -> None:
    """
    Each segment is valid, but the log is not.
    """
    with CommitLog(tmp_path / "other", segment_size=SEGMENT) as log:
        for _ in range(600):
            log.append(Message("T1", b"another one " * 23))
    shutil.copy(segment(tmp_path / "other", SEGMENT), segment(root, SEGMENT))

    found = findings_of(root)

    assert "queueOffset" in {one.kind for one in found.notes[SEGMENT]}
    assert "consumeQueue" in {one.kind for one in found.of_store}


def test_bad_records_are_found_if_the_queues_cannot_be_read(root: Path) -> None:
    """
    The log is checked without them.
    """
    next((root / "consumequeue" / "T1" / "0").iterdir()).write_bytes(b"short")
    start = offsets(root, SEGMENT, SEGMENT)[4]
    write(segment(root, SEGMENT), start - SEGMENT + 120, b"\xff")

    found = findings_of(root)

    assert [("record", start)] == [
        (one.kind, one.offset) for one in found.by_segment[SEGMENT]
    ]
    assert {"consumeQueue"} == {one.kind for one in found.of_store}


# -- epochs and small files ----------------------------------------------------


def test_an_epoch_that_begins_within_a_record_is_a_finding(root: Path) -> None:
    """
    It is about the epoch table, so it is a finding about the store.
    """
    start = offsets(root, SEGMENT, SEGMENT)[5]
    table = EpochTable.of([(1, 0), (2, start), (3, start + 1)])
    (root / EPOCH_FILE).write_bytes(encode_epochs(table))

    found = findings_of(root)

    assert {} == found.by_segment
    assert [Finding("epoch", start + 1, found.of_store[0].text)] == found.of_store
    assert f"at offset {start + 1}, but no record begins" in found.of_store[0].text


def test_epochs_that_begin_with_a_record_are_no_finding(tmp_path: Path) -> None:
    """
    An epoch may also begin at the end of the log.
    """
    root = tmp_path / "a"
    with CommitLog(root, segment_size=SEGMENT) as log:
        for epoch in range(1, 8):
            log.begin_epoch(epoch)
            if epoch < 7:
                fill(log, 150)

    assert [] == places(findings_of(root))


def test_findings_of_the_plan_are_kept(root: Path) -> None:
    """
    They are about small files that are damaged.
    """
    (root / EPOCH_FILE).write_bytes(b"nonsense")

    kinds = {one.kind for one in findings_of(root).of_store}

    assert "epoch" in kinds
