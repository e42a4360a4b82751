"""
What changes a log beside appends: starts, cuts, deletions, queues, grants.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from lib.store.logs import SEGMENT_SIZE, make_root, open_log

from pystore.bindings.ffi import NO_OFFSET, Check, LocalAck
from pystore.core.log_writer import LogHandle
from pystore.core.options import LogOptions
from pystore.errors import (
    FencedError,
    InvalidError,
    OffsetOutOfRange,
    PystoreError,
)
from pystore.message.message import Message

MESSAGE = Message("Topic", b"body", keys="k", tags="t")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogHandle]:
    """
    An empty log, started.
    """
    with open_log(make_root(tmp_path)) as log:
        yield log


def test_the_queue_table_continues_at_its_offsets(
    log: LogHandle, tmp_path: Path
) -> None:
    """
    Loaded or noted from rows, the next record gets the next queue offset.
    """
    for queue in (0, 1, 1, 2):
        log.append(Message("T", b"", queue_id=queue).form)
    wanted = {("T", 0): 1, ("T", 1): 2, ("T", 2): 1}
    end = log.ends().published_end
    assert (wanted, end) == log.queues_fill()

    log.queues_reset()
    assert ({}, end) == log.queues_fill()
    (rows,) = log.scan(0, checks=Check.TOPIC)
    log.queues_note(rows)
    assert (wanted, end) == log.queues_fill()
    log.queues_reset()
    log.queues_note(rows[::-1][::2])  # gaps between rows do not matter
    assert {("T", 2): 1, ("T", 1): 1} == log.queues_fill()[0]
    with pytest.raises(InvalidError, match="no rows of a scan"):
        log.queues_note(np.zeros(3))

    with open_log(make_root(tmp_path / "other")) as other:
        other.queues_load(wanted)
        other.queues_load({("T", 1): 1})  # never back
        assert 2 == other.append(Message("T", b"", queue_id=1).form).queue_offset


def test_a_large_queue_table_is_filled_whole(log: LogHandle) -> None:
    """
    The buffer grows until it holds the table.
    """
    queues = {(f"topic-{n}", n % 7): n + 1 for n in range(9000)}

    log.queues_load(queues)

    assert queues == log.queues_fill()[0]


def test_a_cut_removes_the_bytes_above_it(log: LogHandle) -> None:
    """
    In four steps; readers see the generation.
    """
    ends = [log.append(Message("T", bytes(9000)).form).end for _ in range(20)]
    before = log.ends()

    log.cut_begin(ends[2])
    log.cut_publish(before.cut_generation + 1)
    report = log.cut_apply()
    log.cut_end(is_done=True)

    assert ends[-1] - ends[2] == report.bytes_cut
    assert before.segments - 1 == report.segments_removed
    assert ends[2] == log.ends().published_end
    assert ({}, ends[2]) == log.queues_fill()
    assert 3 == log.scan(0).finish().records
    assert ends[2] == log.append(MESSAGE.form).offset
    log.unchanged(before.cut_generation, ends[2])
    with pytest.raises(PystoreError):
        log.unchanged(before.cut_generation, ends[3])


def test_appends_wait_while_a_cut_runs(log: LogHandle) -> None:
    """
    They continue at its offset, as later appends.
    """
    ends = [log.append(MESSAGE.form).end for _ in range(3)]
    offsets: list[int] = []
    writer = threading.Thread(
        target=lambda: offsets.append(log.append(MESSAGE.form).offset)
    )

    log.cut_begin(ends[0])
    writer.start()
    log.cut_publish(1)
    log.cut_apply()
    appended = list(offsets)
    log.cut_end(is_done=True)
    writer.join()

    assert [] == appended
    assert [ends[0]] == offsets


def test_a_cut_that_only_began_can_be_given_up(log: LogHandle) -> None:
    """
    No byte is lost, and appends continue.
    """
    log.append(MESSAGE.form)
    end = log.append(MESSAGE.form).end

    log.cut_begin(0)
    log.cut_end(is_done=False)

    assert end == log.append(MESSAGE.form).offset
    with pytest.raises(InvalidError):
        log.cut_begin(1)


def test_old_segments_are_deleted_from_the_front(log: LogHandle) -> None:
    """
    Never the active one; a held block stays readable.
    """
    for _ in range(30):
        log.append(Message("T", bytes(9000)).form)
    view = log.acquire(0, 1000)
    shown = bytes(view)
    segments = log.segments()

    assert 1 == log.delete_before(segments[2] - 1)
    assert segments[1] == log.ends().min_offset
    assert len(segments) - 2 == log.delete_before(log.ends().published_end)
    assert [segments[-1]] == log.segments()
    assert shown == bytes(view)
    with pytest.raises(OffsetOutOfRange) as raised:
        log.read(0)
    assert 0 == raised.value.offset


def test_without_authority_nothing_is_appended(log: LogHandle) -> None:
    """
    The grant runs out by either clock, and an older epoch cannot grant.
    """
    log.authority(5)
    log.append(MESSAGE.form)
    for boottime_ns, wall_ms in ((0, NO_OFFSET), (NO_OFFSET, 0), (1, 1)):
        log.authority(5, boottime_ns, wall_ms)
        with pytest.raises(FencedError):
            log.append(MESSAGE.form)
    with pytest.raises(FencedError):
        log.authority(4)

    log.authority(6)
    log.append(MESSAGE.form)
    assert 2 == log.scan(0).finish().records


def test_a_shared_ack_outlives_the_deadline(log: LogHandle) -> None:
    """
    C3: an append with a shared ack is refused only after a revocation.
    """
    log.authority(5, 1, 1)
    log.append(MESSAGE.form, LocalAck.SHARED)
    for ack in (LocalAck.LEADER, LocalAck.SYNCED):
        with pytest.raises(FencedError, match="of epoch 5 has run out"):
            log.append(MESSAGE.form, ack)

    log.authority(5, 0, 0)
    with pytest.raises(FencedError):
        log.append(MESSAGE.form, LocalAck.SHARED)
    assert 1 == log.scan(0).finish().records


def test_confirm_only_rises(log: LogHandle) -> None:
    """
    It never passes the end.
    """
    first, second = (log.append(MESSAGE.form).end for _ in range(2))
    log.confirm(second)
    log.confirm(first)

    assert second == log.ends().confirm_offset
    with pytest.raises(OffsetOutOfRange):
        log.confirm(second + 1)


def test_a_start_needs_an_end_within_the_log(tmp_path: Path) -> None:
    """
    Before it, and for a reader, appends are refused.
    """
    root = make_root(tmp_path)
    log = LogHandle(root, LogOptions(writable=True, segment_size=SEGMENT_SIZE))
    with pytest.raises(PystoreError):
        log.append(MESSAGE.form)
    with pytest.raises(InvalidError, match="an empty log starts where a segment"):
        log.start(5, synced_end=0, confirm_offset=0, clean=True)
    with pytest.raises(InvalidError, match="no ends: -1"):
        log.start(-1, synced_end=0, confirm_offset=0, clean=True)
    log.start(0, synced_end=0, confirm_offset=0, clean=True)
    with pytest.raises(InvalidError):
        log.start(0, synced_end=0, confirm_offset=0, clean=True)
    log.append(MESSAGE.form)
    log.close()

    with LogHandle(root) as reader, pytest.raises(PystoreError):
        reader.append(MESSAGE.form)


def test_a_start_zeroes_what_is_above_its_end(tmp_path: Path) -> None:
    """
    Bytes above the end never come back.
    """
    root = make_root(tmp_path)
    with open_log(root) as log:
        ends = [log.append(MESSAGE.form).end for _ in range(3)]

    with LogHandle(root, LogOptions(writable=True)) as log:
        report = log.start(ends[0], synced_end=0, confirm_offset=0, clean=False)

        assert 0 < report.bytes_zeroed
        assert ends[0] == report.bytes_rewritten
        assert 1 == log.scan(0).finish().records
