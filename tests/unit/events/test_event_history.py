"""
The history of events on disk: bounded, and nothing waits for it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pystore.events.event_history import EventHistory
from pystore.events.store_events import LogSynced, SegmentsDeleted


def deleted(number: int) -> SegmentsDeleted:
    """
    Returns an event.
    """
    return SegmentsDeleted(time_ms=0, path="/s", segments=number, min_offset=0)


def numbers_in(*paths: Path) -> list[int]:
    """
    Returns which events files hold.
    """
    lines = [one for path in paths for one in path.read_text().splitlines()]
    return [json.loads(line)["segments"] for line in lines]


def until(is_so: Callable[[], bool]) -> None:
    """
    Waits for a thread.
    """
    until_s = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < until_s
        time.sleep(0.005)


def test_events_are_lines_of_a_file_and_follow_those_of_the_process_before(
    tmp_path: Path,
) -> None:
    """
    Those for debugging are left out.
    """
    path = tmp_path / "events.jsonl"
    for number in (1, 2):
        with EventHistory(path, pytest.fail) as history:
            history.tell(deleted(number))
            history.tell(LogSynced(time_ms=0, path="/s", synced_end=1))

    assert [1, 2] == numbers_in(path)
    assert "SegmentsDeleted" == json.loads(path.read_text().splitlines()[0])["event"]


def test_two_files_hold_the_last_events_and_no_more(tmp_path: Path) -> None:
    """
    However many events there are.
    """
    path, before = tmp_path / "events.jsonl", tmp_path / "events.jsonl.1"
    with EventHistory(path, pytest.fail, bytes_max=2_000) as history:
        for number in range(200):
            history.tell(deleted(number))

    assert {path, before} == set(tmp_path.iterdir())
    assert path.stat().st_size <= 2_000
    assert before.stat().st_size <= 2_000
    found = numbers_in(before, path)
    assert list(range(200))[-len(found) :] == found
    assert len(found) > 10


@pytest.mark.parametrize("is_full", [False, True])
def test_events_that_cannot_be_written_are_lost_and_that_is_told_once(
    tmp_path: Path, *, is_full: bool
) -> None:
    """
    On a full disk, or in a directory that is not there; later ones are written again.
    """
    said: list[str] = []
    path = tmp_path / "gone" / "events.jsonl"
    if is_full:
        path.parent.mkdir()
        path.symlink_to("/dev/full")
    with EventHistory(path, said.append) as history:
        history.tell(deleted(1))
        until(lambda: bool(said))
        history.tell(deleted(2))

    why = "No space left on device" if is_full else "No such file or directory"
    assert [f"events are lost, they are not in {path}: {why}"] == said


def test_a_disk_that_works_again_takes_events_again(tmp_path: Path) -> None:
    """
    Without a restart.
    """
    said: list[str] = []
    path = tmp_path / "gone" / "events.jsonl"
    with EventHistory(path, said.append) as history:
        history.tell(deleted(1))
        until(lambda: bool(said))
        path.parent.mkdir()
        history.tell(deleted(2))

    assert [2] == numbers_in(path)
