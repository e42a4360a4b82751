"""
Verification reports whether a store is whole, torn or damaged, and where.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lib.oracle.golden_data import VARIANTS, GoldenStore, apply_patch

from pystore.errors import NotAStoreError
from pystore.message.columns import gather_columns
from pystore.store.commit_log import CommitLog
from pystore.verify import StoreReport, verify_store

SEGMENT = 65536
SHORT = ("last-file-short",)
UNDETECTED = ("property-byte-flip",)
"""A byte that no checksum covers, in stores without property CRC."""


def make_store(root: Path, records: int = 3000) -> None:
    """
    Writes several segments and closes the store.
    """
    with CommitLog(root, segment_size=SEGMENT) as log:
        bodies = [b"body %d" % number for number in range(records)]
        log.append_columns(gather_columns("topic", bodies))


def change(path: Path, at: int, data: bytes) -> None:
    """
    Overwrites bytes of a file.
    """
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def segment(root: Path, base: int) -> Path:
    """
    Returns the file of a segment.
    """
    return root / "commitlog" / f"{base:020d}"


def test_every_golden_store_is_whole(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    It has the records that Java counted and every entry of its consume queues.
    """
    before = {path: path.stat() for path in golden_root.rglob("*")}
    report = verify_store(golden_root)

    expected = golden_store.expected
    named = sum(len(queue["entries"]) for queue in expected["consumeQueues"].values())
    assert "whole" == report.verdict
    assert len(golden_store.records) == report.records
    assert expected["maxPhyOffset"] == report.end_offset
    assert expected["minPhyOffset"] == report.min_offset
    assert named == report.queues.entries + report.queues.missing
    assert [] == report.damages
    assert before.keys() == set(golden_root.rglob("*"))
    assert all(path.stat().st_mtime_ns == s.st_mtime_ns for path, s in before.items())


def java_found(result: dict[str, Any]) -> set[int]:
    """
    Returns the offsets of the records that Java found bad.
    """
    return {bad["offset"] for bad in result["badRecords"]}


@pytest.mark.parametrize(
    ("store", "damage"),
    [pytest.param(s, d, id=f"{s.name}-{d['variant']}") for s, d in VARIANTS],
)
def test_every_damage_of_a_golden_store_has_the_verdict_of_java(
    store: GoldenStore, damage: dict[str, Any], tmp_path: Path
) -> None:
    """
    A record that Java finds bad is damage with its offset, and a tail that Java cuts
    is torn or damaged at the offset of that cut.
    """
    root = store.extract(tmp_path)
    apply_patch(root, damage["patch"])
    report = verify_store(root)

    name, result = damage["variant"], damage["result"]
    offsets = {found.offset for found in report.damages}
    if name in SHORT:
        assert "damaged" == report.verdict
        return
    bad = java_found(result) if result["loadOk"] else set()
    assert bad <= offsets
    whole = store.expected["maxPhyOffset"]
    java_end = result["maxPhyOffset"] if result["loadOk"] else whole
    if name.startswith("tail-"):
        assert "torn" == report.verdict
        tail = store.records[-1]
        assert tail["offset"] == report.end_offset
        assert len(store.records) - 1 == report.records
    elif name.endswith("-body-flip"):
        (record,) = offsets or {report.end_offset}
        assert record in {line["offset"] for line in store.records}
        assert bad == {record} or java_end == record
    elif name == "physical-offset-garbled":
        assert "whole" != report.verdict
    elif name in UNDETECTED:
        assert "whole" == report.verdict or bad
    elif java_end == whole and name != "stray-bytes-after-end":
        assert "whole" == report.verdict
        assert whole == report.end_offset
    elif java_end < whole:
        assert java_end in offsets | {report.end_offset} or report.damages


def test_a_flipped_body_is_reported_and_the_next_records_are_checked(
    tmp_path: Path,
) -> None:
    """
    Of two bad records one is the first of a segment: both are reported, and only
    these two are skipped.
    """
    root = tmp_path / "s"
    make_store(root)
    with CommitLog(root, mode="r") as log:
        records = [row for rows in log.scan() for row in rows]
    chosen = [records[10], next(row for row in records if row["offset"] == SEGMENT)]
    for row in chosen:
        at = int(row["offset"] + row["body_at"])
        change(segment(root, at - at % SEGMENT), at % SEGMENT, b"X")
    report = verify_store(root)

    assert "damaged" == report.verdict
    assert [int(row["offset"]) for row in chosen] == [d.offset for d in report.damages]
    assert [int(row["size"]) for row in chosen] == [
        d.skipped_bytes for d in report.damages
    ]
    assert [str(segment(root, 0)), str(segment(root, SEGMENT))] == [
        d.path for d in report.damages
    ]
    assert len(records) - 2 == report.records


def test_garbage_hides_only_its_own_bytes(tmp_path: Path) -> None:
    """
    After a wrong size the next record is found, and the report has the number of
    skipped bytes.
    """
    root = tmp_path / "s"
    make_store(root)
    change(segment(root, 0), 1000, bytes(range(1, 256)))
    report = verify_store(root)

    (damage,) = report.damages
    assert damage.offset is not None
    assert damage.offset <= 1000
    assert 1255 - damage.offset < damage.skipped_bytes < 1000
    assert report.end_offset - damage.skipped_bytes == report.scanned_bytes


def test_zeros_inside_the_log_are_damage(tmp_path: Path) -> None:
    """
    A lost page looks like the end of the log, but the log continues.
    """
    root = tmp_path / "s"
    make_store(root)
    with CommitLog(root, mode="r") as log:
        start = int(next(log.scan())["offset"][20])
    change(segment(root, 0), start, bytes(SEGMENT - start))
    report = verify_store(root)

    assert [start] == [damage.offset for damage in report.damages]
    assert "nothing was written here" in report.damages[0].reason


def test_a_lost_end_below_the_synced_end_is_damage(tmp_path: Path) -> None:
    """
    The last record is gone without a trace: only the bound shows it.
    """
    root = tmp_path / "s"
    make_store(root)
    with CommitLog(root, mode="r") as log:
        last = [row for rows in log.scan() for row in rows][-1]
        end = log.end_offset
    base = int(last["offset"]) - int(last["offset"]) % SEGMENT
    at = int(last["offset"]) - base
    change(segment(root, base), at, bytes(int(last["size"])))
    report = verify_store(root)

    assert [int(last["offset"])] == [damage.offset for damage in report.damages]
    assert str(end) in report.damages[0].reason


CRASH = """
import os, sys
from pystore.message.columns import gather_columns
from pystore.store.commit_log import CommitLog
log = CommitLog(sys.argv[1], segment_size=65536, flush_interval_ms=0)
log.append_columns(gather_columns("topic", [b"body"] * 700))
print(log.end_offset, flush=True)
{wait}
os._exit(1)
"""


def crash(root: Path) -> int:
    """
    Leaves the store of a killed process; returns the end of its log.
    """
    code = CRASH.format(wait="")
    run = subprocess.run(
        [sys.executable, "-c", code, str(root)], capture_output=True, check=False
    )
    return int(run.stdout)


def test_a_torn_tail_after_a_crash_is_not_damage(tmp_path: Path) -> None:
    """
    Half a record above the published end is reported, but the store is not damaged.
    """
    root = tmp_path / "s"
    end = crash(root)
    base = end - end % SEGMENT
    record = segment(root, 0).read_bytes()[:100]
    change(segment(root, base), end - base, record[:60])
    report = verify_store(root)

    assert ("torn", end, 60) == (report.verdict, report.end_offset, report.torn_bytes)
    assert 700 == report.records


def test_a_fault_below_the_published_end_of_a_crashed_store_is_damage(
    tmp_path: Path,
) -> None:
    """
    In the same boot the live page is valid: no record below its end may be bad.
    """
    root = tmp_path / "s"
    end = crash(root)
    base = end - end % SEGMENT
    change(segment(root, base), end - base - 30, b"X")
    report = verify_store(root)

    assert "damaged" == report.verdict
    assert end > (report.damages[0].offset or 0) > end - 200


def test_a_store_is_verified_while_another_process_writes(tmp_path: Path) -> None:
    """
    The log up to its end at the beginning is whole; later bytes do not matter.
    """
    root = tmp_path / "s"
    code = CRASH.format(wait="sys.stdin.readline()")
    command = [sys.executable, "-c", code, str(root)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        end = int(writer.stdout.readline())
        report = verify_store(root)
        writer.communicate(b"\n")

    assert ("whole", end, 700) == (report.verdict, report.end_offset, report.records)


def test_a_store_that_this_process_writes_can_be_verified(tmp_path: Path) -> None:
    """
    The lock is not touched: the writer continues.
    """
    with CommitLog(tmp_path / "s", segment_size=SEGMENT) as log:
        log.append_columns(gather_columns("topic", [b"body"] * 10))
        assert 10 == verify_store(tmp_path / "s").records
        log.append_columns(gather_columns("topic", [b"body"] * 10))


def test_a_missing_segment_is_damage(tmp_path: Path) -> None:
    """
    One for each, and all other records are checked.
    """
    root = tmp_path / "s"
    make_store(root)
    whole = verify_store(root)
    segment(root, SEGMENT).unlink()
    segment(root, 3 * SEGMENT).unlink()
    change(segment(root, 2 * SEGMENT), 5000, b"?")
    report = verify_store(root)

    assert "damaged" == report.verdict
    assert [SEGMENT, 3 * SEGMENT] == [
        damage.offset for damage in report.damages if "is missing" in damage.reason
    ]
    assert 3 == len(report.damages)
    assert 2 * SEGMENT < (report.damages[1].offset or 0) <= 2 * SEGMENT + 5000
    assert whole.end_offset == report.end_offset
    assert whole.scanned_bytes > report.scanned_bytes > 3 * SEGMENT


def test_a_short_last_segment_is_damage_though_every_record_is_there(
    tmp_path: Path,
) -> None:
    """
    An opening for writing refuses it.
    """
    root = tmp_path / "s"
    make_store(root)
    whole = verify_store(root)
    last = max((root / "commitlog").iterdir())
    os.truncate(last, SEGMENT - 100)
    report = verify_store(root)

    assert whole.records == report.records
    (damage,) = report.damages
    assert str(last) == damage.path
    assert (whole.end_offset, int(last.name) + SEGMENT) == (damage.offset, damage.end)
    assert damage.is_ill
    assert ("replica", "by hand") == damage.heals


def test_a_directory_that_is_not_a_store_is_refused(tmp_path: Path) -> None:
    """
    There is no report.
    """
    with pytest.raises(NotAStoreError):
        verify_store(tmp_path / "missing")
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotAStoreError):
        verify_store(tmp_path)


@pytest.mark.parametrize(
    "name", ["checkpoint", "epochFileCheckpoint", "brokerIdentity"]
)
def test_an_unreadable_small_file_is_damage(name: str, tmp_path: Path) -> None:
    """
    With garbage in one of RocketMQ's files the records are checked nevertheless.
    """
    root = tmp_path / "s"
    make_store(root)
    (root / name).write_bytes(b"\xff garbage\n")
    report = verify_store(root)

    assert "damaged" == report.verdict
    assert any(name in damage.path for damage in report.damages)
    assert 3000 == report.records


def test_a_truncated_database_is_damage(tmp_path: Path) -> None:
    """
    The records are checked nevertheless.
    """
    root = tmp_path / "s"
    make_store(root)
    os.truncate(root / "meta" / "lmdb" / "data.mdb", 0)
    report = verify_store(root)

    assert "damaged" == report.verdict
    assert any("data.mdb" in damage.path for damage in report.damages)
    assert 3000 == report.records


def test_bytes_without_a_checksum_are_counted(tmp_path: Path) -> None:
    """
    With the property CRC there are none.
    """
    counts: list[StoreReport] = []
    for has_crc in (True, False):
        root = tmp_path / str(has_crc)
        with CommitLog(root, segment_size=SEGMENT, property_crc=has_crc) as log:
            log.append_columns(gather_columns("topic", [b"body"] * 10))
        counts.append(verify_store(root))

    assert [0, 10] == [report.unproved for report in counts]
    assert 0 == counts[0].uncovered_bytes
    assert 10 * (91 - 24 + 5) > counts[1].uncovered_bytes > 10 * 50


def test_an_empty_store_is_whole(tmp_path: Path) -> None:
    """
    There is no record and no damage.
    """
    CommitLog(tmp_path / "s").close()
    report = verify_store(tmp_path / "s")

    assert ("whole", 0) == (report.verdict, report.records)


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    """
    A bar that stops early would look like a hanging process.
    """
    make_store(tmp_path / "s")
    steps: list[tuple[int, int]] = []
    verify_store(tmp_path / "s", 2, lambda done, total: steps.append((done, total)))

    assert steps[-1][0] == steps[-1][1] > SEGMENT
    assert sorted(steps) == steps


def test_a_copy_is_verified_by_its_records(tmp_path: Path) -> None:
    """
    The bounds of a copied store are void (A15), but its records are whole.
    """
    make_store(tmp_path / "s")
    shutil.copytree(tmp_path / "s", tmp_path / "copy")

    assert "whole" == verify_store(tmp_path / "copy").verdict
