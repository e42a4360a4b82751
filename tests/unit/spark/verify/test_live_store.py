"""
The verify job beside a writer that rolls segments and deletes old ones.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lib.spark.verify_job import check, run_here

import pystore.spark.verify.plan as planning
from pystore.consumequeue.queues import queue_file_size_of
from pystore.message.message import Message
from pystore.spark.verify.plan import plan_store
from pystore.spark.verify.run import verify_stores
from pystore.spark.verify.segment_list import SegmentList, list_segments
from pystore.store.retention import Retention
from pystore.store.store import Store

SEGMENT = 65536
ROUNDS = int(os.environ.get("VERIFY_ROUNDS", "40"))
SECONDS = float(os.environ.get("VERIFY_ROLL_SECONDS", "0.02"))
KEPT = Retention(reserved_hours=None, total_bytes_max=8 * SEGMENT)


def run_late(
    tasks: Sequence[Any], function: Callable[[Any], Any], size: Callable[[Any], int]
) -> list[Any]:
    """
    Runs tasks while the writer rolls at times.
    """
    if tasks and tasks[0].base % 3 == 0:
        time.sleep(SECONDS)
    return run_here(tasks, function, size)


@contextmanager
def _written(root: Path, seconds: float) -> Iterator[Callable[[], int]]:
    """
    A store to which a thread appends a segment after each pause, and keeps eight.

    Yields a function that returns how many segments began so far.
    """
    is_over = threading.Event()
    problems: list[BaseException] = []

    def write(store: Store) -> None:
        try:
            number, epoch = 0, 1
            while not is_over.wait(seconds):
                for _ in range(60):
                    number += 1
                    topic, queue = f"T{number % 3}", number % 2
                    store.log.append(Message(topic, b"x" * 1000, queue_id=queue))
                if number % 420 == 0:
                    epoch += 1
                    store.log.begin_epoch(epoch)
                store.retain(KEPT, 0)
        except BaseException as error:
            # The test fails with it.
            problems.append(error)

    with Store(root, segment_size=SEGMENT, queue_file_bytes=400) as store:
        store.log.begin_epoch(1)
        writer = threading.Thread(target=write, args=(store,))
        writer.start()
        try:
            yield lambda: store.log.end_offset // SEGMENT
        finally:
            is_over.set()
            writer.join()
    assert not problems


def test_a_store_that_rolls_many_segments_a_second_has_no_finding(
    tmp_path: Path,
) -> None:
    """
    With retention, new epochs and consume queues.
    """
    root = tmp_path / "a"
    with _written(root, SECONDS) as segments:
        while segments() < 2:
            time.sleep(0.01)
        before = segments()
        for number in range(ROUNDS):
            verdicts = verify_stores(run_late, [str(root)]).verdicts
            odd = [one for one in verdicts if one.is_bad or one.verdict == "UNKNOWN"]
            assert [] == odd, f"round {number}"
        assert segments() > before


def test_a_segment_that_begins_while_a_store_is_planned_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The end is read before the segments are listed.
    """
    root = tmp_path / "a"
    with Store(root, segment_size=SEGMENT) as store:

        def grow() -> None:
            for _ in range(100):
                store.log.append(Message("T", b"x" * 1000))

        def list_late(path: Path) -> SegmentList:
            found = list_segments(path)
            grow()
            return found

        grow()
        monkeypatch.setattr(planning, "list_segments", list_late)
        plan = plan_store(root)
        assert plan.end <= plan.listing.bases[-1] + SEGMENT
        verdicts = check(root)

    assert {"UNSEALED"} == {str(one.verdict) for one in verdicts}


@pytest.mark.parametrize("is_folder_there", [False, True])
def test_the_first_queue_files_after_the_plan_are_no_finding(
    tmp_path: Path, *, is_folder_there: bool
) -> None:
    """
    Nothing said how large they would be.
    """
    root = tmp_path / "a"

    def run_dispatched(
        tasks: Sequence[Any], function: Callable[[Any], Any], size: Callable[[Any], int]
    ) -> list[Any]:
        store.dispatch()
        return run_here(tasks, function, size)

    with Store(root, segment_size=SEGMENT, queue_file_bytes=400) as store:
        for _ in range(100):
            store.log.append(Message("T", b"x" * 1000))
        if is_folder_there:
            (root / "consumequeue" / "T" / "0").mkdir(parents=True)
        verdicts = verify_stores(run_dispatched, [str(root)]).verdicts

    assert [] == [one for one in verdicts if one.is_bad or one.verdict == "UNKNOWN"]


def test_queue_files_that_appear_while_a_store_is_planned_have_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The plan is made again.
    """
    root = tmp_path / "a"
    with Store(root, segment_size=SEGMENT, queue_file_bytes=400) as store:
        for _ in range(100):
            store.log.append(Message("T", b"x" * 1000))

        def ask_early(path: Path) -> int:
            found = queue_file_size_of(path)
            store.dispatch()
            return found

        monkeypatch.setattr(planning, "queue_file_size_of", ask_early)
        plan = plan_store(root)

    assert (True, 400) == (plan.share.has_queues, plan.share.queue_file_size)
    assert [] == plan.findings


def test_a_segment_that_retention_deletes_meanwhile_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The plan is made again.
    """
    root = tmp_path / "a"
    with Store(root, segment_size=SEGMENT) as store:

        def list_early(path: Path) -> SegmentList:
            found = list_segments(path)
            store.log.delete_before(found.bases[0] + SEGMENT)
            return found

        for _ in range(500):
            store.log.append(Message("T", b"x" * 1000))
        with monkeypatch.context() as patch:
            early = [list_early, list_early]

            def list_often(path: Path) -> SegmentList:
                return (early.pop() if early else list_segments)(path)

            patch.setattr(planning, "list_segments", list_often)
            verdicts = check(root)

    assert {"UNSEALED"} == {str(one.verdict) for one in verdicts}
