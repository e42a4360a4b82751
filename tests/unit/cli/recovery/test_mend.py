"""
``pystore recovery mend`` shows what other copies repair, and does it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.command_line import overwrite, run, run_json, segment_file
from lib.store.late import follow_from
from lib.store.pairs import SEGMENT, fill, seal


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """
    A store with a bad block; a whole copy is beside it.
    """
    fill(tmp_path / "copy")
    seal(tmp_path / "copy")
    follow_from(tmp_path / "copy", tmp_path / "store", 0)
    overwrite(segment_file(tmp_path / "store", SEGMENT), 700, b"????")
    return tmp_path / "store"


def test_a_dry_run_shows_the_steps_and_changes_nothing(store: Path) -> None:
    """
    With the reason and the source of each one.
    """
    before = segment_file(store, SEGMENT).read_bytes()
    copy = store.parent / "copy"
    result = run("recovery", "mend", store, "--from", copy, "--dry-run")

    assert 0 == result.exit_code
    assert [
        f"{store}: 1 segments to repair, 0 left",
        f"  {SEGMENT:020d}: write bad blocks in place (1), from {copy}",
        "     because 1 of 1 blocks are bad",
        "  nothing was changed",
    ] == result.stdout.splitlines()
    assert before == segment_file(store, SEGMENT).read_bytes()


def test_the_repair_leaves_a_whole_store(store: Path) -> None:
    """
    A second one has nothing to do.
    """
    copy = store.parent / "copy"
    found = run_json("recovery", "mend", store, "--from", copy)
    step = {
        "segment": SEGMENT,
        "action": "patch",
        "reason": "1 of 1 blocks are bad",
        "from": [str(copy)],
        "blocks": [0],
        "isDone": True,
    }
    assert {
        "schemaVersion": 1,
        "store": str(store),
        "isDryRun": False,
        "steps": [step],
        "unmended": [],
    } == found
    assert 0 == run("verify", store).exit_code
    again = run("recovery", "mend", store, "--from", copy)
    assert (0, f"{store}: nothing to repair\n") == (again.exit_code, again.stdout)


def test_a_replaced_file_is_kept_beside_the_store(store: Path) -> None:
    """
    It may be of use to find out what happened.
    """
    path = segment_file(store, 0)
    path.write_bytes(b"short")
    run_json("recovery", "mend", store, "--from", store.parent / "copy")
    kept = store.parent / "store.mended-1" / path.name
    assert b"short" == kept.read_bytes()


def test_what_no_copy_repairs_is_named_with_each_reason(store: Path) -> None:
    """
    The exit code says that damage is left.
    """
    copy = store.parent / "copy"
    overwrite(segment_file(copy, SEGMENT), 700, b"????")
    result = run("recovery", "mend", store, "--from", copy)

    assert 1 == result.exit_code
    assert [
        f"{store}: 0 segments repaired, 1 left",
        f"  {SEGMENT:020d}: 1 of 1 blocks are bad; no copy repairs it",
        f"     not from {copy}: its own block 0 is bad",
    ] == result.stdout.splitlines()


def test_a_store_is_no_copy_of_itself(store: Path) -> None:
    """
    Neither by another path.
    """
    other = store.parent / "link"
    other.symlink_to(store)
    result = run("recovery", "mend", store, "--from", other)
    assert 2 == result.exit_code
    assert "is STORE: name another store" in result.stderr


@pytest.mark.parametrize("words", [(), ("--from", "missing"), ("--segment", "-1")])
def test_wrong_words_are_refused(store: Path, words: tuple[str, ...]) -> None:
    """
    Nothing is done.
    """
    result = run("recovery", "mend", store, *words)
    assert result.exit_code in (2, 3)
    assert 1 == len(result.stderr.splitlines()) or "Usage" in result.stderr
