"""
What stands behind a missing segment: nothing that may be lost, or a refusal.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from lib.command_line import run, run_json
from lib.store.segment_files import segment
from lib.store.stores import SEGMENT, bodies, fill, kill_while, message

from pystore.errors import CorruptError, NotAStoreError
from pystore.recovery.dry_run import inspect
from pystore.recovery.state import text_of_stranded
from pystore.store.commit_log import CommitLog


def make_foreign(root: Path, segments: int = 2) -> list[bytes]:
    """
    A store after a kill of RocketMQ; returns the bodies in it.
    """
    with CommitLog(root, segment_size=SEGMENT) as log:
        while log.end_offset < segments * SEGMENT - SEGMENT // 2:
            fill(log, 20, first=log.end_offset)
        found = bodies(log)
    shutil.rmtree(root / "meta")
    (root / "abort").write_text("4711")
    return found


def allocate(root: Path, *numbers: int) -> list[Path]:
    """
    Segments as RocketMQ allocates them: all of their size, and never written.
    """
    paths = [segment(root, number * SEGMENT) for number in numbers]
    for path in paths:
        path.touch()
        os.truncate(path, SEGMENT)
    return paths


@pytest.mark.parametrize("numbers", [(3,), (3, 4), (4, 6)], ids=str)
def test_a_segment_allocated_after_a_gap_is_removed(
    tmp_path: Path, numbers: tuple[int, ...]
) -> None:
    """
    It holds nothing: a cut of RocketMQ over several segments was killed (A2).
    """
    root = tmp_path / "store"
    before = make_foreign(root)
    paths = allocate(root, *numbers)
    bases = tuple(number * SEGMENT for number in numbers)

    dry = run_json("recover", root, "--dry-run")
    assert list(bases) == dry["strandedSegments"]
    assert (None, 0) == (dry["cutOffset"], dry["cutBytes"])
    assert all(path.exists() for path in paths)
    with CommitLog(root, mode="r") as log:
        assert before == bodies(log)
    with CommitLog(root) as log:
        assert bases == log.recovery.stranded
        assert len(bases) == log.recovery.segments_removed
        assert before == bodies(log)
        assert not any(path.exists() for path in paths)
        fill(log, 2000)
        assert len(before) + 2000 == len(bodies(log))
    with CommitLog(root) as log:
        assert log.recovery.is_clean
        assert () == log.recovery.stranded


def test_recover_reports_the_segments_that_it_removed(tmp_path: Path) -> None:
    """
    Before and after, in words.
    """
    root = tmp_path / "store"
    make_foreign(root)
    (path,) = allocate(root, 3)

    for options in (["--dry-run"], []):
        assert path.exists()
        result = run("recover", root, *options)
        assert 0 == result.exit_code
        row = f"empty segments  {path.name}: empty and after a missing segment"
        assert row in result.stdout
    assert not path.exists()
    assert "empty segments" not in run("recover", root).stdout


def test_one_byte_after_a_gap_refuses_the_opening(tmp_path: Path) -> None:
    """
    At any position nothing is changed, and the error has the remedy.
    """
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    root = tmp_path / "store"
    make_foreign(root)
    _, _, last = allocate(root, 3, 4, 6)
    with last.open("r+b") as file:
        file.seek(chance.randrange(SEGMENT))
        file.write(b"\x01")
    names = {path.name for path in (root / "commitlog").iterdir()}

    with pytest.raises(NotAStoreError) as caught:
        CommitLog(root)
    assert str(caught.value).endswith(
        f"segment {2 * SEGMENT:020} is missing before {last.name}, which is not "
        "empty: restore it from a replica or a backup; until then the store opens for "
        "reading only"
    ), seed
    with CommitLog(root, mode="r") as log:
        assert [2, 5] == [ill.offset // SEGMENT for ill in log.ill], seed
    assert names == {path.name for path in (root / "commitlog").iterdir()}, seed


@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
def test_our_own_missing_segment_is_damage_before_an_empty_one(
    tmp_path: Path, is_killed: bool
) -> None:
    """
    There was no foreign writer, so the bounds show missing acknowledged bytes; the
    empty segment behind them says nothing.
    """
    root = tmp_path / "store"

    def work(log: CommitLog) -> None:
        fill(log, 500)
        log.keep()
        log.writer.log.roll()

    if is_killed:
        kill_while(root, work)
    else:
        with CommitLog(root, segment_size=SEGMENT) as log:
            work(log)
    last = max(int(path.name) for path in (root / "commitlog").iterdir())
    segment(root, last - SEGMENT).unlink()

    with pytest.raises(CorruptError, match="damage at offset") as caught:
        CommitLog(root)
    assert last - SEGMENT == caught.value.offset
    assert segment(root, last).exists()
    with CommitLog(root, accept_loss=True) as log:
        assert last - SEGMENT == log.end_offset
        assert (last,) == log.recovery.stranded


def test_an_empty_segment_far_after_a_closed_log_is_removed(tmp_path: Path) -> None:
    """
    The clean mark does not cover it, so it is not valid.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 30)
        before = bodies(log)
    (path,) = allocate(root, 5)

    assert not inspect(root).plan.is_clean
    with CommitLog(root) as log:
        assert before == bodies(log)
    assert not path.exists()


def test_rocketmq_would_continue_after_the_gap(tmp_path: Path) -> None:
    """
    A blank record leads it to the next file that it has, whatever that is called;
    our log ends with its last record, and a rule says why.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        end = log.append(message(1)).end
        log.writer.log.roll()
    shutil.rmtree(root / "meta")
    (root / "abort").write_text("4711")
    segment(root, SEGMENT).unlink()
    allocate(root, 4)

    found = run_json("recover", root, "--dry-run")
    assert 4 * SEGMENT == found["rocketmqEndOffset"]
    assert (end, "A2") == (found["endOffset"], found["rule"])
    assert found["cutReason"]


def test_stranded_segments_are_named_by_the_first() -> None:
    """
    One line, however many there are.
    """
    assert text_of_stranded((7,)).startswith(f"segment {7:020} is allocated")
    assert text_of_stranded((7, 9)).startswith(f"segment {7:020} (and 1 more) is")
