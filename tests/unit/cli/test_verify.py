"""
A verdict for each store, and an exit code for all of them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from lib.command_line import (
    SEGMENT,
    make_store,
    overwrite,
    run,
    run_json,
    segment_file,
)
from lib.oracle.golden_data import GoldenStore

from pystore.verify.coverage import UNCOVERED_FIELDS


def test_every_golden_store_passes(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    The report has all its records.
    """
    (found,) = run_json("verify", golden_root)["stores"]

    assert "whole" == found["verdict"]
    assert len(golden_store.records) == found["records"]
    result = run("verify", golden_root)
    assert 0 == result.exit_code
    assert result.stdout.startswith(f"{golden_root}: whole: ")


def test_what_is_not_read_is_a_note(golden_root: Path) -> None:
    """
    A verdict says nothing about RocketMQ's extensions of queue entries.
    """
    before = run_json("verify", golden_root)["stores"][0]["unread"]
    extension = golden_root / "consumequeue_ext" / "T" / "0"
    extension.mkdir(parents=True)
    (extension / f"{0:020d}").write_bytes(bytes(100))

    (found,) = run_json("verify", golden_root)["stores"]
    lines = run("verify", golden_root).stdout.splitlines()

    (part,) = set(found["unread"]) - set(before)
    assert part.startswith("consumequeue_ext: extensions of queue entries")
    assert f"  note: {part}" in lines
    assert "whole" == found["verdict"]


def test_one_damaged_store_of_several_is_found_and_the_others_checked(
    tmp_path: Path,
) -> None:
    """
    Each store has a line; the code is 1, even if another store cannot be checked.
    """
    stores = [make_store(tmp_path / name) for name in "abc"]
    overwrite(segment_file(stores[1]), 200, b"garbage")
    result = run("verify", "--jobs", "2", *stores[:2], tmp_path / "missing", stores[2])

    verdicts = [line for line in result.stdout.splitlines() if line.startswith("/")]
    assert ["whole", "damaged", "whole"] == [v.split(": ")[1] for v in verdicts]
    assert 1 == result.exit_code
    assert f"damage: {segment_file(stores[1])}: offset " in result.stdout
    assert "missing" in result.stderr


def test_json_names_every_damage(tmp_path: Path) -> None:
    """
    The report has path, offset, reason, and the skipped bytes.
    """
    root = make_store(tmp_path / "s")
    overwrite(segment_file(root), 0, b"\x7f")
    (found,) = run_json("verify", root, exit_code=1)["stores"]

    (damage,) = found["damages"]
    assert (str(segment_file(root)), 0, 122) == (
        damage["path"],
        damage["offset"],
        damage["skippedBytes"],
    )
    assert "size" in damage["reason"]
    assert "damaged" == found["verdict"]


def test_a_store_that_cannot_be_checked_is_code_3(tmp_path: Path) -> None:
    """
    The store is neither good nor bad: its state is unknown.
    """
    found = run_json("verify", tmp_path / "no", make_store(tmp_path / "s"), exit_code=3)

    assert [None, "whole"] == [store["verdict"] for store in found["stores"]]
    assert "no such" in found["stores"][0]["error"]


def test_without_property_crc_the_uncovered_bytes_are_reported(tmp_path: Path) -> None:
    """
    The report has their number and their fields.
    """
    root = make_store(tmp_path / "s", property_crc=False)
    (found,) = run_json("verify", root)["stores"]
    text = run("verify", root).stdout

    assert 1500 == found["unprovedRecords"]
    assert list(UNCOVERED_FIELDS) == found["uncoveredFields"]
    assert "1,500 records have no property CRC" in text
    (whole,) = run_json("verify", make_store(tmp_path / "t"))["stores"]
    assert (0, 0, []) == (
        whole["unprovedRecords"],
        whole["uncoveredBytes"],
        whole["uncoveredFields"],
    )


KILLED = """
import os, sys
from pystore.message.columns import gather_columns
from pystore.store.commit_log import CommitLog
log = CommitLog(sys.argv[1])
log.append_columns(gather_columns("topic", [b"body"] * 100))
os.kill(os.getpid(), 9)
"""


def test_removed_consume_queues_are_a_note(golden_root: Path) -> None:
    """
    RocketMQ builds them anew, so it is no damage; but no consumer finds the records.
    """
    records = run_json("verify", golden_root)["stores"][0]["records"]
    shutil.rmtree(golden_root / "consumequeue")
    result = run("verify", golden_root)

    assert f"note: {records} records have no consume queue entry" in result.stdout


def test_a_torn_tail_is_reported_and_is_not_damage(tmp_path: Path) -> None:
    """
    The next opening cuts it.
    """
    root = tmp_path / "s"
    subprocess.run([sys.executable, "-c", KILLED, str(root)], check=False)
    (before,) = run_json("verify", root)["stores"]
    overwrite(segment_file(root), before["endOffset"], b"torn")
    (found,) = run_json("verify", root)["stores"]

    assert ("whole", 100) == (before["verdict"], before["records"])
    assert ("torn", 4, 100) == (
        found["verdict"],
        found["tornBytes"],
        found["records"],
    )
    assert "torn: 4 bytes after offset" in run("verify", root).stdout


def test_a_segment_that_the_system_does_not_open_is_unknown(tmp_path: Path) -> None:
    """
    The others are checked; the exit code is 3, with damage beside it 1.
    """
    root = make_store(tmp_path / "s")
    path = segment_file(root, SEGMENT)
    path.unlink()
    path.symlink_to(path.name)
    found = run_json("verify", root, exit_code=3)["stores"][0]

    assert ("unknown", []) == (found["verdict"], found["damages"])
    (unknown,) = found["unknown"]
    assert (str(path), SEGMENT) == (unknown["path"], unknown["offset"])
    text = run("verify", root).stdout
    assert f"  unknown: {path}: offset {SEGMENT}: cannot open: Too many levels" in text
    assert 3 == run("doctor", root).exit_code
    overwrite(segment_file(root), 800, b"????")
    found = run_json("verify", root, exit_code=1)["stores"][0]
    assert ("damaged", 1) == (found["verdict"], len(found["damages"]))
