"""
Whole records come out of damaged stores, and the command says what stays behind.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from lib.command_line import (
    SEGMENT,
    make_store,
    overwrite,
    run,
    run_json,
    run_process,
    segment_file,
)

from pystore.message.message import Message
from pystore.store.commit_log import CommitLog
from pystore.verify import verify_store


def damaged(root: Path) -> Path:
    """
    A store with a bad record and a missing segment, which no mode opens.
    """
    make_store(root, records=3000)
    overwrite(segment_file(root), 200, b"garbage")
    segment_file(root, SEGMENT).unlink()
    return root


def lines_of(text: str) -> list[dict[str, Any]]:
    """
    The objects of JSON lines.
    """
    return [json.loads(line) for line in text.splitlines()]


def test_a_store_that_does_not_open_becomes_one_that_is_whole(tmp_path: Path) -> None:
    """
    Each range that is left behind has path, offset, size and reason.
    """
    root, target = damaged(tmp_path / "s"), tmp_path / "t"
    assert 3 == run("append", root, "--topic", "t").exit_code
    result = run("salvage", root, "--into", target)

    assert 1 == result.exit_code
    head, bad, missing = result.stdout.splitlines()
    records = verify_store(target).records
    assert head.startswith(f"{root}: {records:,} records taken, ")
    assert head.endswith(f", into {target}")
    left = f"  left behind: {root}/commitlog/"
    assert bad.startswith(f"{left}{0:020d}: offset 122, 122 bytes:")
    assert (
        f"{left}{SEGMENT:020d}: offset {SEGMENT}, 65,536 "
        "bytes: the file is missing" == missing
    )
    assert "whole" == verify_store(target).verdict


def test_a_whole_store_is_taken_completely_with_code_0(tmp_path: Path) -> None:
    """
    The report is one JSON object.
    """
    root, target = make_store(tmp_path / "s"), tmp_path / "t"
    result = run("salvage", root, "--into", target, "--report", tmp_path / "r")
    report = json.loads((tmp_path / "r").read_text())

    assert (0, 1) == (result.exit_code, len(result.stdout.splitlines()))
    with CommitLog(target, mode="r") as log:
        expected = {
            "schemaVersion": 1,
            "store": str(root),
            "target": str(target),
            "records": 1500,
            "recordBytes": log.end_offset - 2 * (log.end_offset // SEGMENT),
            "unprovedRecords": 0,
            "endOffset": log.end_offset,
            "leftRanges": 0,
            "leftBytes": 0,
            "left": [],
            "repeatedRecords": 0,
            "impossibleRecords": 0,
            "rejected": [],
        }
    assert expected | {"recordBytes": report["recordBytes"]} == report


def test_json_lines_are_those_of_dump(tmp_path: Path) -> None:
    """
    To a new file, or to the standard output with the report elsewhere.
    """
    root = make_store(tmp_path / "s")
    dumped = run("dump", root, "--bodies").stdout
    result = run("salvage", root, "--json", tmp_path / "lines")

    assert 0 == result.exit_code
    assert dumped == (tmp_path / "lines").read_text()
    streamed = run_process("salvage", root, "--json", "-")
    assert dumped.encode() == streamed.stdout
    assert streamed.stderr.startswith(f"{root}: 1,500 records taken".encode())
    assert ["lines", "s"] == sorted(os.listdir(tmp_path))
    again = run("salvage", root, "--json", tmp_path / "lines")
    assert (2, True) == (again.exit_code, "exists" in again.stderr)


def test_lines_of_a_damaged_store_have_every_whole_record(tmp_path: Path) -> None:
    """
    Of a repeated queue offset, too, which a store cannot have twice.
    """
    root = tmp_path / "s"
    with CommitLog(root, segment_size=SEGMENT) as log:
        log.append(Message("t", b"first"))
        log.writer.log.queues_reset()
        offset = log.append(Message("t", b"\xff")).offset
    found = lines_of(run("salvage", root, "--json", "-").stdout)
    result = run("salvage", root, "--into", tmp_path / "t", "--report", "-")
    (report,) = lines_of(result.stdout)

    assert ["first", None] == [one.get("body") for one in found]
    assert "/w==" == found[1]["bodyBase64"]
    assert (1, 1, 1) == (
        result.exit_code,
        report["records"],
        report["repeatedRecords"],
    )
    assert [(offset, "t", 0, 0)] == [
        (one["offset"], one["topic"], one["queueId"], one["queueOffset"])
        for one in report["rejected"]
    ]
    text = run("salvage", root, "--into", tmp_path / "u").stdout
    assert f"record at offset {offset}: t, queue 0, queue offset 0: an earlier" in text
    assert "1 records with a repeated queue offset" in text


def test_many_ranges_are_counted(tmp_path: Path) -> None:
    """
    The first twenty are shown.
    """
    root = make_store(tmp_path / "s", records=300)
    with CommitLog(root, mode="r") as log:
        offsets = [int(at) for rows in log.scan() for at in rows["offset"]]
    for offset in offsets[10:60:2]:
        overwrite(segment_file(root), offset + 4, b"no")
    result = run("salvage", root, "--into", tmp_path / "t")

    assert 20 == result.stdout.count("bytes: ")
    assert "left behind: 25 ranges in all" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--into", "t", "--json", "x"),
        ("--json", "-", "--report", "-"),
        ("--into", "s"),
        ("--into", "s/inner"),
        ("--into", "full"),
        ("--into", "t", "--segment-size", "125"),
    ],
)
def test_a_wrong_target_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """
    Nothing is made.
    """
    make_store(tmp_path / "s")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    monkeypatch.chdir(tmp_path)
    result = run("salvage", "s", *arguments)

    assert 2 == result.exit_code, result.output
    assert ["full", "s"] == sorted(os.listdir(tmp_path))


def test_what_is_no_log_is_code_3(tmp_path: Path) -> None:
    """
    One line says what was looked for.
    """
    (tmp_path / "s").mkdir()
    for name in ("s", "missing"):
        result = run("salvage", tmp_path / name, "--into", tmp_path / "t")
        assert (3, 1) == (result.exit_code, len(result.stderr.splitlines()))
    assert ["s"] == os.listdir(tmp_path)


def test_a_file_as_source_is_named_with_what_to_give(tmp_path: Path) -> None:
    """
    One segment alone is no source: its directory is.
    """
    source = tmp_path / "file"
    source.write_bytes(b"bytes")
    result = run("salvage", source, "--into", tmp_path / "new")

    assert 3 == result.exit_code
    assert f"{source}: not a directory: give a store" in result.stderr


def test_the_new_store_takes_appends(tmp_path: Path) -> None:
    """
    Queue offsets go on behind the salvaged ones.
    """
    root, target = damaged(tmp_path / "s"), tmp_path / "t"
    run("salvage", root, "--into", target)
    with CommitLog(target) as log:
        assert log.recovery.is_clean
        assert 3000 == log.append(Message("topic", b"next")).queue_offset
    assert 0 == run_json("verify", target)["stores"][0]["missingEntries"]
