"""
Each line of standard input becomes a record; acknowledged records are stored.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from lib.command_line import PYSTORE, run_process

from pystore.message.record import Record
from pystore.store.commit_log import CommitLog


def records(root: Path) -> list[Record]:
    """
    Returns every record of a store.
    """
    with CommitLog(root, mode="r") as log:
        return [log.read(int(row["offset"])) for rows in log.scan() for row in rows]


def append_json(root: Path, *options: str, stdin: bytes) -> dict[str, Any]:
    """
    Appends and returns the printed report.
    """
    found = run_process("append", root, "--topic", "T", "--json", *options, stdin=stdin)
    assert (0, b"") == (found.returncode, found.stderr)
    report: dict[str, Any] = json.loads(found.stdout)
    return report


def test_a_record_is_a_line_without_its_newline(tmp_path: Path) -> None:
    """
    Any bytes, blank lines too, and a last line that has no newline.
    """
    report = append_json(tmp_path / "s", stdin=b"one\n\ntwo\r\n\xff\0\nlast")
    found = records(tmp_path / "s")

    assert [b"one", b"", b"two\r", b"\xff\0", b"last"] == [r.body for r in found]
    assert {("T", 0, None, None)} == {
        (r.topic, r.queue_id, r.keys, r.tags) for r in found
    }
    assert (5, 0, found[-1].end) == (
        report["records"],
        report["firstOffset"],
        report["endOffset"],
    )


def test_topic_queue_keys_and_tags_are_those_of_every_record(tmp_path: Path) -> None:
    """
    A second run continues where the first one ended.
    """
    options = ("--queue", "3", "--keys", "k1 k2", "--tags", "blue")
    append_json(tmp_path / "s", *options, "--ack", "leader-synced", stdin=b"a\nb\n")
    report = append_json(tmp_path / "s", *options, stdin=b"c\n")
    found = records(tmp_path / "s")

    assert [(3, 0), (3, 1), (3, 2)] == [(r.queue_id, r.queue_offset) for r in found]
    assert {("k1 k2", "blue")} == {(r.keys, r.tags) for r in found}
    assert found[2].offset == report["firstOffset"]


def test_many_lines_are_appended_in_order(tmp_path: Path) -> None:
    """
    More than one chunk, with lines longer than a chunk.
    """
    lines = [b"%d" % number for number in range(60000)]
    lines[30000] = b"x" * 3_000_000
    report = append_json(tmp_path / "s", stdin=b"\n".join(lines))

    assert lines == [record.body for record in records(tmp_path / "s")]
    assert sum(map(len, lines)) == report["bodyBytes"]


def test_no_input_makes_an_empty_store(tmp_path: Path) -> None:
    """
    The output says that no record was appended.
    """
    found = run_process("append", tmp_path / "s", "--topic", "T")

    assert (0, b"") == (found.returncode, found.stderr)
    assert found.stdout.startswith(b"0 records acknowledged")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--topic", "t" * 128], b"topic"),
        (["--topic", ""], b"topic"),
        (["--topic", "T", "--tags", "a\x01b"], b"separates properties"),
        (["--topic", "T", "--keys", "k" * 40000], b"too long"),
    ],
)
def test_a_value_that_no_record_can_hold_is_wrong_usage(
    options: list[str], words: bytes, tmp_path: Path
) -> None:
    """
    The error comes before the store is created.
    """
    found = run_process("append", tmp_path / "s", *options, stdin=b"a\n")

    assert 2 == found.returncode
    assert words in found.stderr.splitlines()[-1]
    assert not (tmp_path / "s").exists()


def test_a_line_that_is_too_long_is_named_and_the_lines_before_it_are_appended(
    tmp_path: Path,
) -> None:
    """
    The last line gives the number of appended records.
    """
    lines = b"a\nb\n" + b"x" * 5_000_000 + b"\nc\n"
    found = run_process("append", tmp_path / "s", "--topic", "T", stdin=lines)
    first, last = found.stderr.decode().splitlines()

    assert (3, b"") == (found.returncode, found.stdout)
    assert re.match(r"pystore: line 3: .*5000000", first)
    assert last.startswith("2 records acknowledged")
    assert [b"a", b"b"] == [record.body for record in records(tmp_path / "s")]


def test_a_store_that_another_process_writes_is_refused(tmp_path: Path) -> None:
    """
    One line names the process that writes.
    """
    with CommitLog(tmp_path / "s"):
        found = run_process("append", tmp_path / "s", "--topic", "T", stdin=b"a\n")

    (line,) = found.stderr.decode().splitlines()
    assert 3 == found.returncode
    assert str(os.getpid()) in line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_after_ctrl_c_only_the_acknowledged_records_are_stored(
    number: int, tmp_path: Path
) -> None:
    """
    Half a line is not appended; one line gives the number of records.
    """
    root = tmp_path / "s"
    command = [*PYSTORE, "append", str(root), "--topic", "T"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"one\ntwo\nhalf")
        process.stdin.flush()
        wait_for_records(root, 2)
        process.send_signal(number)
        stdout, stderr = process.communicate()

    assert (128 + number, b"") == (process.returncode, stdout)
    assert b"2 records acknowledged" in stderr.splitlines()[-1]
    assert [b"one", b"two"] == [record.body for record in records(root)]


def wait_for_records(root: Path, count: int) -> None:
    """
    Waits until a store that another process writes has records.
    """
    found = 0
    while found < count:
        try:
            found = len(records(root))
        except Exception:
            # The store is still being created.
            continue


def test_a_cut_of_the_opening_is_reported_on_stderr(tmp_path: Path) -> None:
    """
    A caller that appends after a crash is informed.
    """
    root = tmp_path / "s"
    append_json(root, stdin=b"a\n")
    with CommitLog(root, mode="r") as log:
        end = log.end_offset
    (root / "abort").write_text("1234")
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(end)
        file.write(b"torn tail")
    found = run_process("append", root, "--topic", "T", stdin=b"b\n")

    lines = found.stderr.decode().splitlines()
    assert 0 == found.returncode
    assert any("another program changed the store" in line for line in lines)
    assert any(f"9 bytes were cut at offset {end}" in line for line in lines)
