"""
A cut as a whole: queues, epochs, and what a failure in the middle leaves.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pytest
from lib.store.stores import SEGMENT, bodies, fill, kill_while, message

from pystore.core.live_page import LivePage
from pystore.core.log_writer import LogHandle
from pystore.epochs.table import EpochTable
from pystore.errors import (
    BusyError,
    CutError,
    FencedError,
    FullError,
    OffsetOutOfRange,
    StorageError,
)
from pystore.metastore.database import MetaStore
from pystore.metastore.schema import CUT, HEADS, POSITIONS
from pystore.metastore.transaction import WriteTransaction
from pystore.store.commit_log import CommitLog
from pystore.store.cut import begin_at, cut_log


def _as_of(log: CommitLog) -> int:
    """
    The end of the log that the stored queue offsets are of.
    """
    return log.writer.metastore.read(HEADS[POSITIONS]).as_of


def test_a_cut_lowers_every_queue_to_its_remaining_records(tmp_path: Path) -> None:
    """
    Each queue continues after its last remaining record; new ones begin at 0.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        offsets = fill(log, 30)
        fill(log, 3, first=100)
        log.append(message(0, topic="Other"))
        cut_log(log.writer, offsets[20])

        assert [7, 7, 6] == [log.append(message(i)).queue_offset for i in (30, 31, 32)]
        assert 0 == log.append(message(0, topic="Other")).queue_offset


def test_a_cut_that_cannot_be_made_durable_changes_nothing(tmp_path: Path) -> None:
    """
    Without the intent on disk no byte is changed, and appends continue.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        offsets = fill(log, 30)
        checkpoint = log.writer.metastore
        log.writer.metastore = _Full(checkpoint)  # type: ignore[assignment]
        with pytest.raises(FullError):
            log.cut(offsets[10])
        log.writer.metastore = checkpoint

        assert 30 == len(bodies(log))
        fill(log, 1)
        assert 0 == checkpoint.read(CUT).generation


class _Full:
    """
    A checkpoint on a full disk.
    """

    def __init__(self, checkpoint: object) -> None:
        self._checkpoint = checkpoint

    def change(self) -> object:
        raise FullError("no space")


def test_an_unfinished_cut_is_finished_by_the_next_opening(tmp_path: Path) -> None:
    """
    SIGKILL behind the intent: nothing above it comes back (A3).
    """
    root = tmp_path / "store"

    def work(log: CommitLog) -> None:
        offsets = fill(log, 1000)
        log.sync()
        with log.writer.metastore.change() as change:
            change.intend_cut(offsets[100])

    kill_while(root, work)
    with CommitLog(root) as log:
        assert [message(i).body for i in range(100)] == bodies(log)
        assert "A3" == log.recovery.rule
        assert log.writer.metastore.read(CUT).intent is None
        assert 1 == log.writer.metastore.read(CUT).generation
        assert 34 == log.append(message(100)).queue_offset + 1


def test_positions_above_a_cut_are_void(tmp_path: Path) -> None:
    """
    Stored queue offsets never count removed records.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        offsets = fill(log, 30)
        log.keep()
        log.cut(offsets[3])

        assert offsets[3] >= _as_of(log)


def test_positions_that_are_on_disk_stay_as_long_as_the_log_does(
    tmp_path: Path,
) -> None:
    """
    A cut above what is synced does not tie a queue, whose records retention took,
    to bytes that a power cut can take.
    """
    root = tmp_path / "store"
    kept_end = 2 * SEGMENT

    def work(log: CommitLog) -> None:
        log.append(message(0, topic="Once"))
        fill(log, 1000)
        assert 2 == log.delete_before(kept_end)
        assert _as_of(log) == log.end_offset
        offsets = fill(log, 9)
        log.cut(offsets[5])

    kill_while(root, work)
    with CommitLog(root, mode="r") as log:
        stored = [int(at) for rows in log.scan() for at in rows["offset"]][-5]
    end = stored - stored % SEGMENT
    with (root / "commitlog" / f"{end:020d}").open("r+b") as file:
        file.seek(stored - end)
        file.write(bytes(SEGMENT - (stored - end)))
    with LivePage(root / "meta" / "live", writable=True) as page:
        page.begin(page.read()._replace(boot_id=bytes(range(16))))
    with CommitLog(root) as log:
        assert stored == log.end_offset
        assert 1 == log.append(message(0, topic="Once")).queue_offset


def _interrupted(checkpoint: MetaStore) -> MetaStore:
    """
    A checkpoint whose first change is made, and then Ctrl-C comes.
    """
    change = checkpoint.change

    @contextmanager
    def change_once() -> Iterator[WriteTransaction]:
        del checkpoint.change
        with change() as made:
            yield made
        raise KeyboardInterrupt

    checkpoint.change = change_once  # type: ignore[method-assign]
    return checkpoint


def _hold(log: CommitLog, seed: int, stops: threading.Event) -> list[str]:
    """
    Takes views, keeps some of them, and answers where one has changed.
    """
    random = Random(seed)
    held: list[tuple[int, memoryview, bytes]] = []
    wrong = []
    while not stops.is_set():
        with suppress(CutError, BusyError, OffsetOutOfRange):  # a cut is faster
            at = random.randrange(log.end_offset or 1)
            view = log.reader.acquire(at, random.randrange(1, 30_000))
            held.append((at, view, bytes(view)))
        wrong += [f"{seed}: {at}" for at, view, shown in held if shown != view]
        if len(held) > 5:
            del held[random.randrange(5)]
    return wrong


@pytest.mark.parametrize("seed", range(2))
def test_views_of_running_readers_never_change_under_cuts(
    tmp_path: Path, seed: int
) -> None:
    """
    Readers take and release views while the log is cut and written again: none sees
    another byte, and none dies (B14).
    """
    random, stops = Random(seed), threading.Event()
    print("seed", seed)
    with (
        CommitLog(tmp_path / "store", segment_size=SEGMENT) as log,
        ThreadPoolExecutor(3) as pool,
    ):
        offsets = fill(log, 300)
        readers = [pool.submit(_hold, log, 10 * seed + n, stops) for n in range(3)]
        try:
            for step in range(4):
                kept = random.randrange(len(offsets))
                log.cut(offsets[kept])
                offsets = offsets[:kept] + fill(log, 200, first=1000 * (step + 1))
                assert len(offsets) == len(bodies(log))
        finally:
            stops.set()
        assert [[], [], []] == [reader.result() for reader in readers]


def test_nothing_is_appended_after_an_intent_that_may_be_durable(
    tmp_path: Path,
) -> None:
    """
    Ctrl-C right behind the intent: appends are refused, the next opening cuts, and
    nothing that was acknowledged is above the cut.
    """
    root = tmp_path / "store"
    log = CommitLog(root, segment_size=SEGMENT)
    offsets = fill(log, 30)
    _interrupted(log.writer.metastore)
    with pytest.raises(KeyboardInterrupt):
        log.cut(offsets[10])
    with pytest.raises(BusyError, match="open it again"):
        log.append(message(30))
    with pytest.raises(StorageError, match="could not be removed"):
        log.close()
    with CommitLog(root) as log:
        assert 10 == len(bodies(log))
        assert log.writer.metastore.read(CUT).intent is None


def test_bounds_are_not_kept_while_a_cut_is_unfinished(tmp_path: Path) -> None:
    """
    The core has forgotten the queues by then: stored so, their offsets would begin
    again behind the next opening.
    """
    root = tmp_path / "store"
    log = CommitLog(root, segment_size=SEGMENT)
    offsets = fill(log, 30)
    (root / "meta" / "seals").rmdir()
    (root / "meta" / "seals").write_text("not a directory")
    with pytest.raises(StorageError):
        log.cut(offsets[9])
    assert not log.keep()
    with pytest.raises(StorageError):
        log.close()
    (root / "meta" / "seals").unlink()
    (root / "meta" / "seals").mkdir()
    with CommitLog(root) as log:
        assert 3 == log.append(message(9)).queue_offset


def test_a_log_cut_at_0_is_as_new_wherever_it_began(tmp_path: Path) -> None:
    """
    Records, segments, epochs and queues are gone, also those of a log whose first
    segments were deleted before.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        log.begin_epoch(1)
        fill(log, 2000)
        assert log.delete_before(2 * SEGMENT)
        log.cut(0)

        assert (0, 0, 0) == (log.min_offset, log.end_offset, log.synced_offset)
        assert EpochTable() == log.epochs
        assert 0 == log.append(message(0)).queue_offset


@pytest.mark.parametrize("step", ["cut_publish", "cut_apply", "cut_end"])
def test_a_kill_within_a_cut_at_0_leaves_an_empty_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """
    The next opening finishes it, though the log's first segment is not at 0.
    """
    root = tmp_path / "store"

    def work(log: CommitLog) -> None:
        fill(log, 2000)
        log.delete_before(2 * SEGMENT)
        log.keep()
        die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
        monkeypatch.setattr(LogHandle, step, die)
        log.cut(0)

    kill_while(root, work)
    with CommitLog(root, segment_size=SEGMENT) as log:
        assert () == tuple(log.recovery.foreign)
        assert (0, 0) == (log.min_offset, log.end_offset)
        assert [] == bodies(log)
        fill(log, 5)
    with CommitLog(root) as log:
        assert 5 == len(bodies(log))


@pytest.mark.parametrize("before", [0, 5])
def test_an_empty_log_begins_at_any_segment(tmp_path: Path, before: int) -> None:
    """
    Records of another log are appended there unchanged, and stay.
    """
    base = 3 * SEGMENT
    with CommitLog(tmp_path / "master", segment_size=SEGMENT) as master:
        fill(master, 3000)
        rest = b"".join(bytes(block.view) for block in master.blocks(base))
    with CommitLog(tmp_path / "slave", segment_size=SEGMENT) as log:
        fill(log, before)
        begin_at(log.writer, 2 * SEGMENT)
        begin_at(log.writer, base)
        log.writer.log.append_raw(base, rest)
        kept = bodies(log)
    with CommitLog(tmp_path / "slave") as log:
        assert log.recovery.is_clean
        assert (base, base + len(rest)) == (log.min_offset, log.end_offset)
        assert kept == bodies(log)


@pytest.mark.parametrize("step", ["before", "between", "after"])
@pytest.mark.parametrize("count", [0, 5])
def test_a_kill_around_a_beginning_leaves_an_empty_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, count: int
) -> None:
    """
    It begins at 0 or at the segment, and is neither damaged nor foreign.
    """
    root, base = tmp_path / "store", 3 * SEGMENT
    begin = LogHandle.begin_at

    def die(log: LogHandle, at: int) -> None:
        if step == "after":
            begin(log, at)
        elif step == "between":
            # The segment is there, and no end says so yet.
            folder = root / "commitlog"
            (folder / f"{0:020}").rename(folder / f"{at:020}")
        os.kill(os.getpid(), signal.SIGKILL)

    def work(log: CommitLog) -> None:
        fill(log, count)
        log.keep()
        if count:
            log.cut(0)
        monkeypatch.setattr(LogHandle, "begin_at", die)
        begin_at(log.writer, base)

    kill_while(root, work)
    with CommitLog(root, mode="r") as log:
        assert log.min_offset == log.end_offset
        assert [] == list(log.scan())
    with CommitLog(root, segment_size=SEGMENT) as log:
        assert () == tuple(log.recovery.foreign)
        assert log.min_offset == log.end_offset
        assert log.min_offset in {"before": (0,), "after": (base,)}.get(step, (0, base))
        begin_at(log.writer, base)
        assert base == log.end_offset


def test_an_epoch_is_durable_before_its_first_byte(tmp_path: Path) -> None:
    """
    While a thread appends, no byte at or above the start of an epoch is in the log when
    the transaction of its entry ends; appends go on afterwards.
    """
    tries = 29
    root = tmp_path / "store"
    with CommitLog(root, segment_size=1 << 20, flush_interval_ms=0) as log:
        ends = _ends_after_changes(log)
        is_over, has_appended = threading.Event(), threading.Event()

        def append() -> None:
            number = 0
            while not is_over.is_set():
                log.append(message(number))
                has_appended.set()
                number += 1

        thread = threading.Thread(target=append)
        thread.start()
        starts = []
        try:
            for epoch in range(1, tries + 1):
                ends.clear()
                starts.append(log.begin_epoch(epoch).entries[-1].start_offset)
                assert starts[-1:] == ends[:1]
                while log.end_offset == starts[-1]:
                    # An append from before the epoch may set it, too.
                    has_appended.clear()
                    assert has_appended.wait(30)
        finally:
            is_over.set()
            thread.join()
            del log.writer.metastore.change
        assert sorted(set(starts)) == starts


def _ends_after_changes(log: CommitLog) -> list[int]:
    """
    Gets the end of the log after each transaction of the metastore.
    """
    metastore = log.writer.metastore
    change = metastore.change
    ends: list[int] = []

    @contextmanager
    def change_and_look() -> Iterator[WriteTransaction]:
        with change() as made:
            yield made
        ends.append(log.end_offset)

    metastore.change = change_and_look  # type: ignore[method-assign]
    return ends


def test_appends_go_on_after_an_epoch_that_was_refused(tmp_path: Path) -> None:
    """
    An epoch that is not new, or a transaction that fails, holds nothing back.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        log.begin_epoch(5)
        fill(log, 3)
        with pytest.raises(FencedError):
            log.begin_epoch(4)
        metastore = log.writer.metastore
        log.writer.metastore = _Full(metastore)  # type: ignore[assignment]
        with pytest.raises(FullError):
            log.begin_epoch(6)
        log.writer.metastore = metastore
        fill(log, 3)
        assert [5] == [entry.epoch for entry in log.epochs.entries]
