"""
Bounds while a store is open, and the mark that a clean close leaves.
"""

from __future__ import annotations

import shutil
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from lib.store.stores import SEGMENT, bodies, fill, kill_while, message

from pystore.core.log_writer import LogHandle
from pystore.errors import ClosedError, FencedError
from pystore.metastore.schema import BOUNDS, CLEAN, HEADS, POSITIONS
from pystore.recovery.foreign_writer import is_closed
from pystore.rocketmq.checkpoint_file import CheckpointTimes, parse_checkpoint
from pystore.store.commit_log import CommitLog
from pystore.store.store import Store
from pystore.verify import verify_store


def _as_of(log: CommitLog) -> int:
    """
    The end of the log that the stored queue offsets are of.
    """
    return log.writer.metastore.read(HEADS[POSITIONS]).as_of


def test_bounds_are_stored_when_they_change_and_only_then(tmp_path: Path) -> None:
    """
    A log without appends needs no transaction.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        fill(log, 10)

        assert log.keep()
        assert not log.keep()
        bounds = log.writer.metastore.read(BOUNDS)
        assert log.end_offset == bounds.synced_end == _as_of(log)
        assert log.synced_offset >= bounds.synced_end


def test_an_opening_voids_the_clean_mark_before_anything_else(tmp_path: Path) -> None:
    """
    While a store is open there is no clean mark, and an abort file.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 1)
    assert not (root / "abort").exists()
    with CommitLog(root) as log:
        assert log.recovery.is_clean
        assert log.writer.metastore.read(CLEAN) is None
        assert b" pystore " in (root / "abort").read_bytes()


def test_the_checkpoint_covers_only_what_is_on_disk(tmp_path: Path) -> None:
    """
    Without queue entries the checkpoint makes a Java broker dispatch again (A11).
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        last = log.read(fill(log, 5)[-1]).store_ms

    times = parse_checkpoint((root / "checkpoint").read_bytes())
    assert (last, 0) == (times.physic_ms, times.logics_ms)


def test_half_a_raw_record_leaves_no_clean_mark(tmp_path: Path) -> None:
    """
    What a slave had received of a record goes, and the next opening looks (A9).
    """
    with CommitLog(tmp_path / "master", segment_size=SEGMENT) as master:
        fill(master, 2)
        data = bytes(master.reader.acquire(0))
    with CommitLog(tmp_path / "slave", segment_size=SEGMENT) as slave:
        slave.writer.log.append_raw(0, data[:-7])
        end = slave.end_offset
        assert 0 < end < len(data)
    with CommitLog(tmp_path / "slave") as slave:
        assert not slave.recovery.is_clean
        assert (end, 0) == (slave.end_offset, slave.recovery.cut_bytes)


def test_rolling_an_empty_segment_changes_nothing(tmp_path: Path) -> None:
    """
    No thread was started.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        log.writer.log.roll()
        assert 0 == log.end_offset
        fill(log, 1)
        log.writer.log.roll()
        log.writer.log.roll()
        assert SEGMENT == log.end_offset


def test_a_log_at_a_segments_base_closes_clean(tmp_path: Path) -> None:
    """
    The last record may lie in the segment before the one that is active.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 5)
        log.writer.log.roll()
    with CommitLog(root) as log:
        assert log.recovery.is_clean
        assert SEGMENT == log.end_offset


def test_positions_are_stored_when_only_they_are_new(tmp_path: Path) -> None:
    """
    A store without `meta/` is open, and its queues are not known to it yet.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 10)
    shutil.rmtree(root / "meta")
    with CommitLog(root) as log:
        assert 0 == _as_of(log)
        assert log.keep()

        assert log.end_offset == _as_of(log)
        assert not log.keep()


def test_bounds_from_before_a_cut_are_not_stored_after_it(tmp_path: Path) -> None:
    """
    A cut by another thread between the sync of the maintenance thread and its
    transaction: ends
    above the cut would make the store look damaged.
    """
    root = tmp_path / "store"

    def work(log: CommitLog) -> None:
        offsets = fill(log, 300)
        sync = LogHandle.sync

        def sync_and_be_cut(handle: LogHandle, end: int) -> None:
            sync(handle, end)
            thread = threading.Thread(target=log.cut, args=(offsets[10],))
            thread.start()
            thread.join()

        LogHandle.sync = sync_and_be_cut  # type: ignore[method-assign, assignment]
        log.keep()

    kill_while(root, work)
    with CommitLog(root) as log:
        assert () == log.recovery.foreign
        assert 10 == len(bodies(log))
        assert 3 == log.append(message(10)).queue_offset


def test_without_queues_the_checkpoint_has_no_time_of_them(tmp_path: Path) -> None:
    """
    Removed queues are not on disk, whatever the checkpoint had before (A11).
    """
    root = tmp_path / "store"
    with Store(root, segment_size=SEGMENT) as store:
        fill(store.log, 5)
    assert 0 < parse_checkpoint((root / "checkpoint").read_bytes()).logics_ms
    shutil.rmtree(root / "consumequeue")
    CommitLog(root).close()

    assert 0 == parse_checkpoint((root / "checkpoint").read_bytes()).logics_ms


def test_no_record_is_acknowledged_behind_the_clean_mark(tmp_path: Path) -> None:
    """
    A thread appends while the log closes: it is refused before the end of the mark is
    read, so that the next opening is clean and has each acknowledged record (A9).
    """
    for attempt in range(5):
        root = tmp_path / str(attempt)
        log = CommitLog(root, segment_size=SEGMENT, flush_interval_ms=0)
        ends = [log.append(message(0)).end]
        has_begun = threading.Event()

        def append(
            log: CommitLog = log,
            ends: list[int] = ends,
            has_begun: threading.Event = has_begun,
        ) -> None:
            with suppress(FencedError, ClosedError):
                while True:
                    ends.append(log.append(message(len(ends))).end)
                    has_begun.set()

        thread = threading.Thread(target=append)
        thread.start()
        assert has_begun.wait(30)
        log.close()
        thread.join()
        with CommitLog(root) as log:
            assert log.recovery.is_clean
            assert ends[-1] == log.end_offset


def test_a_store_of_rocketmq_5_5_opens_and_keeps_its_checkpoint(
    tmp_path: Path,
) -> None:
    """
    Version 5.5.0 has a sixth field, the offset of the last record with a queue entry,
    and a later version may have more. pystore writes the field as the store is, and
    keeps what it does not know.
    """
    root = tmp_path / "store"
    with Store(root, segment_size=SEGMENT) as store:
        last = fill(store.log, 5)[-1]
    path = root / "checkpoint"
    content = bytearray(path.read_bytes())
    content[40:48] = (100).to_bytes(8, "big")
    content[4000:4004] = b"more"
    path.write_bytes(content)

    with Store(root) as store:
        assert 5 == len(bodies(store.log))
    content[40:48] = last.to_bytes(8, "big")
    assert content == path.read_bytes()


def test_without_queues_the_checkpoint_has_no_offset_of_them(tmp_path: Path) -> None:
    """
    RocketMQ 5.5.0 then dispatches every record again (A11).
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 5)
    path = root / "checkpoint"
    content = bytearray(path.read_bytes())
    content[40:48] = (100).to_bytes(8, "big")
    path.write_bytes(content)
    CommitLog(root).close()

    assert 0 == parse_checkpoint(path.read_bytes()).logics_offset


def _left_by_a_killed_broker(root: Path) -> tuple[Path, CheckpointTimes]:
    """
    A store whose `abort` is a Java broker's, and the times that it had dispatched to.
    """
    with CommitLog(root, segment_size=SEGMENT) as log:
        times = CheckpointTimes(log.read(fill(log, 5)[-1]).store_ms, 7, 6)
    (root / "checkpoint").write_bytes(times.encode())
    (root / "abort").write_text("4711")
    return root, times


def test_after_a_killed_broker_abort_and_its_times_stay(tmp_path: Path) -> None:
    """
    RocketMQ then dispatches what the killed one did not come to (A11). To pystore the
    store is clean, however often it is opened.
    """
    root, times = _left_by_a_killed_broker(tmp_path / "store")
    for turn in range(3):
        with CommitLog(root) as log:
            assert bool(turn) == log.recovery.is_clean
            assert bool(turn) != bool(log.recovery.foreign)
            fill(log, 5)
        left = parse_checkpoint((root / "checkpoint").read_bytes())
        assert left == replace(times, logics_ms=0, confirm_offset=left.confirm_offset)
        assert b" pystore " in (root / "abort").read_bytes()
        assert is_closed(root)
        assert "whole" == verify_store(root).verdict

    kill_while(root, lambda log: fill(log, 5))
    assert not is_closed(root)
    with CommitLog(root) as log:
        assert 25 == len(bodies(log))
    assert is_closed(root)


def test_when_rocketmq_closed_the_store_pystore_leaves_no_abort_again(
    tmp_path: Path,
) -> None:
    """
    RocketMQ dispatched everything, and removed `abort`.
    """
    root, times = _left_by_a_killed_broker(tmp_path / "store")
    with CommitLog(root) as log:
        fill(log, 1)
    (root / "abort").unlink()
    assert is_closed(root)

    with CommitLog(root) as log:
        assert ("abort was removed",) == log.recovery.foreign
    assert not (root / "abort").exists()
    left = parse_checkpoint((root / "checkpoint").read_bytes())
    assert left.physic_ms >= times.physic_ms
