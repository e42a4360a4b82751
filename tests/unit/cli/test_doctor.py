"""
``pystore doctor`` shows the plan, does it, and has the exit code of ``verify``.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lib.command_line import make_store, overwrite, run, run_json, segment_file


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """
    A store with a damaged record; its whole copy is beside it.
    """
    make_store(tmp_path / "copy")
    shutil.copytree(tmp_path / "copy", tmp_path / "store")
    overwrite(segment_file(tmp_path / "store", 65536), 3000, b"????")
    return tmp_path / "store"


def test_the_plan_changes_nothing_and_says_how_to_do_it(store: Path) -> None:
    """
    The consent to a loss is an option of its own.
    """
    before = segment_file(store, 65536).read_bytes()
    result = run("doctor", store)

    assert 1 == result.exit_code
    assert "give up a part of the log" in result.stdout
    assert "--apply --accept-loss" in result.stdout
    assert "--replica" in result.stdout
    assert before == segment_file(store, 65536).read_bytes()


def test_a_replica_heals_without_loss(store: Path) -> None:
    """
    What was replaced is kept beside the store.
    """
    copy = store.parent / "copy"
    plan = run_json("doctor", store, "--replica", copy, exit_code=1)
    assert ["replica"] == [step["heal"] for step in plan["steps"]]
    assert 0 == plan["lostBytes"]

    done = run_json("doctor", store, "--replica", copy, "--apply")
    assert "whole" == done["verdict"]
    assert Path(done["kept"]).is_dir()
    assert 0 == run("verify", store).exit_code
    assert 0 == run("doctor", store).exit_code


def test_without_consent_the_log_is_not_cut(store: Path) -> None:
    """
    The exit code says that damage is left.
    """
    result = run("doctor", store, "--apply")
    assert 1 == result.exit_code
    assert "--accept-loss" in result.stdout

    assert 0 == run("doctor", store, "--apply", "--accept-loss").exit_code
    assert 0 == run("verify", store).exit_code


def test_a_replica_that_cannot_help_is_named_with_the_reason(
    store: Path, tmp_path: Path
) -> None:
    """
    Otherwise an operator would not know why the plan has a cut.
    """
    make_store(tmp_path / "other", 30)
    result = run("doctor", store, "--replica", tmp_path / "other")

    assert f"not from {tmp_path / 'other'}" in result.stdout
    assert "it has only the offsets" in result.stdout


def test_verify_and_doctor_have_one_exit_code(store: Path) -> None:
    """
    For a damaged store, a whole one, and none.
    """
    for root in (store, store.parent / "copy", store.parent / "none"):
        assert run("verify", root).exit_code == run("doctor", root).exit_code


def test_a_store_that_is_missing_is_named_also_with_a_replica(store: Path) -> None:
    """
    With what to do.
    """
    missing = store / "none"
    result = run("doctor", missing, "--replica", store)

    assert 3 == result.exit_code
    assert f"{missing}: no such directory: check the path" in result.stderr


def test_the_store_itself_and_what_is_no_store_are_no_replicas(store: Path) -> None:
    """
    Also of a whole store, for which no replica is read.
    """
    for root in (store, store.parent / "copy"):
        itself = run("doctor", root, "--replica", root)
        assert 2 == itself.exit_code
        assert "is STORE" in itself.stderr
        missing = run("doctor", root, "--replica", store / "none")
        assert 3 == missing.exit_code
        assert str(store / "none") in missing.stderr
