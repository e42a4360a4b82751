"""
`CommitLog`: what a program sees of a store.
"""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from lib.store.stores import SEGMENT, bodies, fill, kill_while, message

from pystore.bindings.ffi import POSITION_DTYPE
from pystore.core.options import Mode
from pystore.errors import (
    ClosedError,
    ForkedError,
    InvalidError,
    LockedError,
    NotAStoreError,
    OffsetOutOfRange,
)
from pystore.message.message import Message
from pystore.store.commit_log import CommitLog


def test_appended_records_are_read_back_after_a_close(tmp_path: Path) -> None:
    """
    Every record is there with its body, topic and queue offset.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        offsets = fill(log, 2000)

    with CommitLog(tmp_path / "store") as log:
        assert [message(i).body for i in range(2000)] == bodies(log)
        record = log.read(offsets[7])
        assert ("Topic", 1, 2) == (record.topic, record.queue_id, record.queue_offset)


def test_a_batch_is_one_append_and_fills_the_offset_of_each_record(
    tmp_path: Path,
) -> None:
    """
    Positions name the records of a batch in order.
    """
    positions = np.empty(10, POSITION_DTYPE)
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        done = log.append_batch([message(i) for i in range(10)], positions=positions)

        assert 10 == done.count
        assert done.offset == positions["offset"][0]
        assert message(9).body == log.read(int(positions["offset"][9])).body
        assert [0, 0, 0, 1] == positions["queue_offset"][:4].tolist()


def test_after_a_clean_close_nothing_is_scanned(tmp_path: Path) -> None:
    """
    The clean mark is valid; queue offsets continue.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        fill(log, 9)
    with CommitLog(tmp_path / "store") as log:
        done = log.append(message(9))

        assert log.recovery.is_clean
        assert 0 == log.recovery.scanned_bytes
        assert 3 == done.queue_offset


def test_acknowledged_records_survive_sigkill(tmp_path: Path) -> None:
    """
    A killed writer loses no record, and its queues continue without a gap.
    """
    root = tmp_path / "store"
    kill_while(root, lambda log: fill(log, 500))

    with CommitLog(root) as log:
        assert [message(i).body for i in range(500)] == bodies(log)
        assert not log.recovery.is_clean
        assert "published end" == log.recovery.bound_name
        assert 500 // 3 == log.append(message(500)).queue_offset - 0


def test_a_cut_removes_the_end_and_lowers_the_queues(tmp_path: Path) -> None:
    """
    The log, its queues and a later opening agree on the cut.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        offsets = fill(log, 1000)
        report = log.cut(offsets[300])

        assert report.segments_removed > 0
        assert offsets[300] == log.end_offset
        assert 100 == log.append(message(300)).queue_offset
    with CommitLog(root) as log:
        assert 301 == len(bodies(log))


@pytest.mark.parametrize("kept", [0, 5, 15])
def test_a_held_view_keeps_its_bytes_when_the_log_is_cut(
    tmp_path: Path, kept: int
) -> None:
    """
    Also behind later appends at the same offsets, a second and lower cut, and the end
    of the log; and the log shows what was appended there (B14).
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        offsets = fill(log, 20)
        blocks = [
            *log.blocks(offsets[2]),
            *log.blocks(offsets[kept], offsets[kept] + 9),
        ]
        views = [block.view for block in blocks]
        shown = [bytes(view) for view in views]

        log.cut(offsets[kept])
        assert kept == len(bodies(log))
        assert shown == [bytes(view) for view in views]
        fill(log, 60)
        assert kept + 60 == len(bodies(log))
        log.cut(offsets[kept // 2])
        fill(log, 60)
        assert kept // 2 + 60 == len(bodies(log))
        assert shown == [bytes(view) for view in views]
    assert shown == [bytes(view) for view in views]


def test_a_cut_inside_a_record_is_refused(tmp_path: Path) -> None:
    """
    Ends are always ends of whole records (A1).
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        offsets = fill(log, 3)
        with pytest.raises(InvalidError, match="no record ends there"):
            log.cut(offsets[1] + 1)

        assert 3 == len(bodies(log))


def test_a_second_writer_in_the_process_is_refused(tmp_path: Path) -> None:
    """
    One writer per store, and the message names the process.
    """
    with (
        CommitLog(tmp_path / "store", segment_size=SEGMENT),
        pytest.raises(LockedError, match=str(os.getpid())),
    ):
        CommitLog(tmp_path / "store")


def test_use_after_close_is_one_clear_error(tmp_path: Path) -> None:
    """
    A closed log raises, and a second close is allowed.
    """
    log = CommitLog(tmp_path / "store", segment_size=SEGMENT)
    log.close()
    log.close()

    with pytest.raises(ClosedError, match="closed"):
        log.append(message(0))


def test_use_after_a_fork_is_one_clear_error(tmp_path: Path) -> None:
    """
    The child cannot write the parent's store, and its exit does not close it.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        fill(log, 1)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                log.append(message(1))
            except ForkedError:
                log.close()
                code = 0
            os._exit(code)

        assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        fill(log, 1, first=1)
        assert 2 == len(bodies(log))


def test_a_reader_follows_a_writer(tmp_path: Path) -> None:
    """
    A log open for reading sees what is appended afterwards, in new segments too.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 1)
        with CommitLog(root, mode="r") as reader:
            fill(log, 999, first=1)

            assert [message(i).body for i in range(1000)] == bodies(reader)
            with pytest.raises(InvalidError, match="reading only"):
                reader.append(message(0))


@pytest.mark.parametrize("mode", ["r", "w"])
def test_a_missing_directory_is_named(tmp_path: Path, mode: Mode) -> None:
    """
    A missing path is not a store.
    """
    path = tmp_path / "none"
    with pytest.raises(NotAStoreError, match=f"{path}.*check the path"):
        CommitLog(path, mode=mode, create=False)


def test_a_directory_with_something_else_is_not_made_a_store(tmp_path: Path) -> None:
    """
    Nothing is written where other files are.
    """
    (tmp_path / "letter.txt").write_text("hello")
    with pytest.raises(NotAStoreError, match=r"holds 'letter\.txt'"):
        CommitLog(tmp_path)

    assert ["letter.txt"] == os.listdir(tmp_path)


def test_an_offset_outside_the_log_is_named(tmp_path: Path) -> None:
    """
    The error of a read above the end has the end.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        fill(log, 1)
        with pytest.raises(OffsetOutOfRange, match="not below the end"):
            log.read(log.end_offset)


def test_a_message_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    """
    A record never crosses a segment's end.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        with pytest.raises(InvalidError):
            log.append(Message("Topic", bytes(SEGMENT)))

        assert 0 == log.end_offset


def test_epochs_are_durable_before_their_first_byte(tmp_path: Path) -> None:
    """
    An epoch begins at the end, replaces an empty one, and is exported.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        log.begin_epoch(1)
        fill(log, 3)
        end = log.end_offset
        log.begin_epoch(2)
        log.begin_epoch(4)
        fill(log, 1)
    with CommitLog(root) as log:
        assert [(1, 0), (4, end)] == log.epochs.pairs()
    assert f"4-{end}\n" in (root / "epochFileCheckpoint").read_text()


def test_a_log_of_many_segments_needs_few_descriptors(tmp_path: Path) -> None:
    """
    A terabyte in segments of 1 GiB is read under the usual limit of 1024 files.
    """
    segments, spare = 80, 40
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with CommitLog(tmp_path / "store", segment_size=4096) as log:
        for number in range(segments):
            log.append(message(number, size=3000))
        log.sync()
        with (tmp_path / "newest").open("w") as newest:
            limit = newest.fileno() + spare
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        try:
            assert segments == len(bodies(log))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_message_size_that_no_record_can_have_is_refused(tmp_path: Path) -> None:
    """
    The limit is the caller's argument: an error, never the end of the process.
    """
    with pytest.raises(InvalidError, match="message_size_max"):
        CommitLog(tmp_path / "store", message_size_max=2**32 - 1)


@pytest.mark.filterwarnings("ignore:unclosed CommitLog:ResourceWarning")
def test_an_unclosed_log_may_be_garbage_of_a_cycle(tmp_path: Path) -> None:
    """
    The collector ends a cycle in any order; the page outlives the log.
    """
    gc.disable()  # at its own time it might come while half of it is still held
    try:
        for number in range(20):
            log = CommitLog(tmp_path / str(number), segment_size=SEGMENT)
            fill(log, 3)
            cycle: list[object] = [log]
            cycle.append(cycle)
            del log, cycle
            gc.collect()
    finally:
        gc.enable()

    with CommitLog(tmp_path / "0") as log:
        assert [message(i).body for i in range(3)] == bodies(log)


CYCLES = """
import gc, sys
from pystore.store.commit_log import CommitLog
from pystore.message.message import Message

gc.disable()  # at its own time it might come while half of it is still held
for number in range(20):
    log = CommitLog(f"{sys.argv[1]}/{number}", segment_size=65536)
    log.append(Message("Topic", bytes(100)))
    cycle = [[log.reader.acquire(0) for _ in range(3)], log]
    cycle.append(cycle)
    if number % 2:
        cycle.reverse()
    del log, cycle
gc.collect()
"""


@pytest.mark.parametrize("freed", [1, 255], ids=lambda byte: f"freed={byte}")
def test_views_may_be_garbage_of_a_cycle_with_their_log(
    tmp_path: Path, freed: int
) -> None:
    """
    The collector may free the log before its views are released. The C library
    overwrites freed memory, so that each use of it is found.
    """
    environment = os.environ | {"MALLOC_PERTURB_": str(freed)}
    command = [sys.executable, "-c", CYCLES, os.fspath(tmp_path)]

    subprocess.run(command, env=environment, check=True, timeout=60)
