"""
Two stores are compared, and the exit code says whether they are the same.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lib.command_line import SEGMENT, make_store, overwrite, run, run_json, segment_file

from pystore.compare.log_bytes import LogBytes
from pystore.message.message import Message
from pystore.store.commit_log import CommitLog


def pair(tmp_path: Path) -> tuple[Path, Path]:
    """
    A store and a copy of it.
    """
    root = make_store(tmp_path / "a")
    return root, shutil.copytree(root, tmp_path / "b")


def test_equal_stores_are_code_0(tmp_path: Path) -> None:
    """
    With both ends, and a line about epochs.
    """
    ours, theirs = pair(tmp_path)
    result = run("compare", ours, theirs)

    assert 0 == result.exit_code
    first, *logs, epochs = result.stdout.splitlines()
    assert first.startswith(f"{ours} and {theirs}: identical: no byte differs: offsets")
    assert [f"  {ours}: begins at 0, ", f"  {theirs}: begins at 0, "] == [
        line[: line.index("ends at")] for line in logs
    ]
    assert "  epochs: not in both stores; compared by bytes alone" == epochs


def test_damage_is_code_1_with_the_store_that_is_whole(tmp_path: Path) -> None:
    """
    As text and as JSON.
    """
    ours, theirs = pair(tmp_path)
    overwrite(segment_file(theirs), 130, b"\xff")
    result = run("compare", ours, theirs)
    report = run_json("compare", ours, theirs, exit_code=1)

    assert 1 == result.exit_code
    assert "first difference: offset 130: bodyCRC of the record at offset 122" in (
        result.stdout
    )
    assert f"    {segment_file(theirs)}" in result.stdout
    assert "differs: offset 130, 1 bytes: whole in the first, damaged (" in (
        result.stdout
    )
    (difference,) = report["differences"]
    assert ["whole", "damaged"] == difference["verdicts"]
    assert {
        "offset": 130,
        "paths": [str(segment_file(ours)), str(segment_file(theirs))],
        "recordOffset": 122,
        "field": "bodyCRC",
    } == report["firstDifference"]
    assert (False, True, 1, 1) == (
        report["identical"],
        report["sameEnds"],
        report["differingRanges"],
        report["differingBytes"],
    )


def test_many_ranges_are_counted(tmp_path: Path) -> None:
    """
    The first twenty are shown.
    """
    ours, theirs = pair(tmp_path)
    for at in range(0, 30000, 1000):
        overwrite(segment_file(theirs), at, b"\xee")
    result = run("compare", ours, theirs)

    assert 21 == result.stdout.count("differs: ")
    assert "differs: 30 ranges in all, 30 B" in result.stdout


def test_another_end_is_code_1(tmp_path: Path) -> None:
    """
    Also without an offset in common.
    """
    ours, theirs = pair(tmp_path)
    with CommitLog(theirs) as log:
        log.append(Message("t", b"x"))
    result = run("compare", ours, theirs)
    assert (1, True) == (result.exit_code, f"{theirs} has " in result.stdout)
    with CommitLog(tmp_path / "e", segment_size=SEGMENT):
        pass
    result = run("compare", ours, tmp_path / "e")
    assert (1, True) == (result.exit_code, "no offsets in common" in result.stdout)


def test_epochs_say_where_histories_part(tmp_path: Path) -> None:
    """
    If both have an epoch file; one that cannot be read is a note.
    """
    ours, theirs = tmp_path / "a", tmp_path / "b"
    with CommitLog(ours, segment_size=SEGMENT) as log:
        log.begin_epoch(1)
        point = log.append(Message("t", b"common")).end
    shutil.copytree(ours, theirs)
    assert run("compare", ours, theirs).stdout.endswith("  epochs: the same\n")
    for epoch, root in ((2, ours), (3, theirs)):
        with CommitLog(root) as log:
            log.begin_epoch(epoch)
            log.append(Message("t", b"of %d" % epoch))
    text = run("compare", ours, theirs).stdout
    assert f"epochs: they agree up to offset {point}, the consistent point" in text
    assert point == run_json("compare", ours, theirs, exit_code=1)["consistentPoint"]
    (theirs / "epochFileCheckpoint").write_text("bad\n")
    (theirs / "epochFileCheckpoint.bak").unlink(missing_ok=True)
    text = run("compare", ours, theirs).stdout
    assert f"note: {theirs}: its epochs cannot be read" in text


def test_what_cannot_be_read_is_code_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    No store, or a page that the disk does not give.
    """
    ours, theirs = pair(tmp_path)
    missing = run("compare", ours, tmp_path / "missing")
    assert (3, 1) == (missing.exit_code, len(missing.stderr.splitlines()))

    def fail(*_: object) -> bytes | None:
        return None

    monkeypatch.setattr(LogBytes, "read", fail)
    result = run("compare", ours, theirs)
    assert (3, True) == (result.exit_code, "unreadable" in result.stdout)
