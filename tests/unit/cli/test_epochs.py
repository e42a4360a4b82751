"""
The epochs of a log, and where two logs diverge.
"""

from __future__ import annotations

from pathlib import Path

from lib.command_line import make_store, run, run_json

from pystore.message.columns import gather_columns
from pystore.store.commit_log import CommitLog


def write_epochs(root: Path, *epochs: int) -> list[int]:
    """
    Writes a store with ten records in each epoch; returns the epochs' starts and the
    end.
    """
    starts = []
    with CommitLog(root) as log:
        for epoch in epochs:
            starts.append(log.end_offset)
            log.begin_epoch(epoch)
            log.append_columns(gather_columns("topic", [b"body"] * 10))
        starts.append(log.end_offset)
    return starts


def test_epochs_are_shown_with_their_bytes(tmp_path: Path) -> None:
    """
    The last epoch ends at the end of the log.
    """
    first, second, end = write_epochs(tmp_path / "s", 1, 4)
    found = run_json("epochs", tmp_path / "s")

    assert [
        {"epoch": 1, "startOffset": first, "endOffset": second},
        {"epoch": 4, "startOffset": second, "endOffset": end},
    ] == found["epochs"]
    text = run("epochs", tmp_path / "s").stdout
    assert f"{end - second:,}" in text.splitlines()[-1]


def test_the_consistent_point_of_two_stores_is_found(tmp_path: Path) -> None:
    """
    The newest common epoch decides; the output has the bytes above it.
    """
    _, second, end = write_epochs(tmp_path / "a", 1, 2)
    write_epochs(tmp_path / "b", 1, 3)
    found = run_json("epochs", tmp_path / "a", "--against", tmp_path / "b")
    text = run("epochs", tmp_path / "a", "--against", tmp_path / "b").stdout

    assert second == found["consistentPoint"]
    assert str(tmp_path / "b") == found["against"]["store"]
    assert f"consistent point: {second:,}" in text
    assert f"{tmp_path / 'a'}: {end - second:,} bytes above it" in text


def test_stores_without_a_common_epoch_are_code_1(tmp_path: Path) -> None:
    """
    Nothing proves that they share a byte.
    """
    write_epochs(tmp_path / "a", 1)
    write_epochs(tmp_path / "b", 2)
    found = run_json("epochs", tmp_path / "a", "--against", tmp_path / "b", exit_code=1)
    result = run("epochs", tmp_path / "a", "--against", tmp_path / "b")

    assert found["consistentPoint"] is None
    assert "no epoch in common" in result.stdout


def test_a_store_may_have_no_epochs(tmp_path: Path) -> None:
    """
    A store that was never replicated has none.
    """
    root = make_store(tmp_path / "s")

    assert [] == run_json("epochs", root)["epochs"]
    assert "no epochs" in run("epochs", root).stdout


def test_rocketmqs_own_file_is_read(tmp_path: Path) -> None:
    """
    The store was never opened by pystore, and no file is created in it.
    """
    root = make_store(tmp_path / "s")
    with CommitLog(root) as log:
        log.begin_epoch(7)
        end = log.end_offset
    plain = tmp_path / "plain"
    plain.mkdir()
    (root / "commitlog").rename(plain / "commitlog")
    (root / "epochFileCheckpoint").rename(plain / "epochFileCheckpoint")

    assert [{"epoch": 7, "startOffset": end, "endOffset": end}] == run_json(
        "epochs", plain
    )["epochs"]
    assert ["commitlog", "epochFileCheckpoint"] == sorted(
        path.name for path in plain.iterdir()
    )
