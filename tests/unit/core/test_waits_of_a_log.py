"""
A log notifies waiters as it grows, and an append waits in the same call.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.store.stores import message

from pystore.core.waits import OffsetWaiters, WaitOutcome
from pystore.errors import ClosedError, InvalidError
from pystore.store.commit_log import CommitLog

LONG_MS = 60_000


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    """An open log."""
    with CommitLog(tmp_path, segment_size=1 << 16) as opened:
        yield opened


def test_each_publication_rings(log: CommitLog) -> None:
    """A batch is one publication; after `stop_notifying` there are none."""
    waiters = OffsetWaiters(1)
    waiters.notify_on_publish(log.writer.log)
    log.append(message(1))
    log.append_batch([message(2), message(3)])
    assert waiters.mark(0) == 2
    waiters.stop_notifying(log.writer.log)
    log.append(message(4))

    assert waiters.mark(0) == 2


def test_growth_of_the_log_wakes_the_waiters(log: CommitLog) -> None:
    """Only the log notifies."""
    waiters = OffsetWaiters(1, one_by_one=False)
    waiters.notify_on_publish(log.writer.log)
    outcomes: list[WaitOutcome] = []
    thread = threading.Thread(
        target=lambda: outcomes.append(waiters.wait(0, 1, LONG_MS)), daemon=True
    )
    thread.start()
    log.append(message(1))
    thread.join(LONG_MS / 1000)

    assert outcomes == [WaitOutcome.REACHED]


def test_a_waiters_lives_as_long_as_its_log_rings_it(log: CommitLog) -> None:
    """A log whose waiters are dropped does not use freed memory."""
    waiters = OffsetWaiters(1)
    waiters.notify_on_publish(log.writer.log)
    del waiters
    gc.collect()

    assert log.append(message(1)).end == log.end_offset


def test_an_explicit_notification_advances_the_mark() -> None:
    """For events that are not of the log."""
    waiters = OffsetWaiters(2)
    waiters.notify(1)
    waiters.notify(1)

    assert [0, 2] == [waiters.mark(0), waiters.mark(1)]
    with pytest.raises(InvalidError, match="no mark 2"):
        waiters.notify(2)


def test_an_append_waits_for_its_own_end(log: CommitLog) -> None:
    """The mark that passes it ends the wait; one below does not."""
    waits = OffsetWaiters(1)
    found: list[tuple[int, WaitOutcome]] = []

    def append() -> None:
        appended, outcome = waits.append(log.writer.log, message(1).form, 0, LONG_MS)
        found.append((appended.end, outcome))

    thread = threading.Thread(target=append, daemon=True)
    thread.start()
    while not waits.waiting:
        assert thread.is_alive()
    end = log.end_offset
    waits.raise_to(0, end - 1)
    assert not found
    waits.raise_to(0, end)
    thread.join(LONG_MS / 1000)

    assert found == [(end, WaitOutcome.REACHED)]


def test_an_append_is_there_after_its_wait_timed_out(log: CommitLog) -> None:
    """It returns the offset and the outcome; also after more than one slice."""
    waits = OffsetWaiters(1)
    form = message(1).form

    for timeout_ms in (0, 1, 210):
        appended, outcome = waits.append(log.writer.log, form, 0, timeout_ms)
        assert outcome is WaitOutcome.EXPIRED
        assert appended.end == log.end_offset


def test_an_append_that_fails_waits_for_nothing(log: CommitLog) -> None:
    """Neither a bad mark nor a bad message leaves a record."""
    waits = OffsetWaiters(1)
    end = log.end_offset

    with pytest.raises(InvalidError, match="no mark 1"):
        waits.append(log.writer.log, message(1).form, 1, LONG_MS)
    with pytest.raises(InvalidError, match="str"):
        waits.append(log.writer.log, "text", 0, LONG_MS)  # type: ignore[arg-type]
    with pytest.raises(InvalidError):
        waits.append(log.writer.log, b"\0" * 8, 0, LONG_MS)
    assert log.end_offset == end
    handle = log.writer.log
    log.close()
    with pytest.raises(ClosedError):
        waits.append(handle, message(1).form, 0, LONG_MS)
    with pytest.raises(ClosedError):
        waits.notify_on_publish(handle)
