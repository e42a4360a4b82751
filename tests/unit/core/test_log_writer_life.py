"""
A handle among threads, after close and after fork.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lib.store.logs import make_root, open_log

from pystore.bindings.ffi import LocalAck
from pystore.core.log_reader import LogReader
from pystore.core.log_writer import LogHandle
from pystore.core.options import Route
from pystore.errors import (
    ClosedError,
    ForkedError,
)
from pystore.message.columns import gather_columns
from pystore.message.message import Message

MESSAGE = Message("Topic", b"body", keys="k", tags="t")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogHandle]:
    """
    An empty log, started.
    """
    with open_log(make_root(tmp_path)) as log:
        yield log


def _calls(log: LogHandle) -> list[Callable[[], Any]]:
    """
    Returns every call of a handle.
    """
    columns = gather_columns("T", [b""])
    return [
        lambda: log.append(MESSAGE.form),
        lambda: log.append_batch([MESSAGE]),
        lambda: log.append_columns(columns),
        lambda: log.append_client_batch(Route("T"), MESSAGE.client_form),
        lambda: log.append_raw(0, b"x"),
        log.roll,
        log.sync,
        lambda: log.authority(1),
        lambda: log.confirm(0),
        lambda: log.queues_load({}),
        log.queues_reset,
        log.queues_fill,
        lambda: log.cut_begin(0),
        lambda: log.cut_publish(1),
        log.cut_apply,
        lambda: log.cut_end(is_done=True),
        lambda: log.delete_before(0),
        lambda: log.start(0, synced_end=0, confirm_offset=0, clean=True),
        log.ends,
        log.segments,
        lambda: log.read(0),
        lambda: log.acquire(0),
        lambda: next(log.scan(0)),
        lambda: log.topic(0),
        lambda: log.unchanged(0, 0),
    ]


def test_after_close_every_call_is_refused(log: LogHandle) -> None:
    """
    A second close is allowed; existing views stay readable.
    """
    log.append(MESSAGE.form)
    view = log.acquire(0)
    record = log.read(0)
    log.close()
    log.close()

    for call in _calls(log):
        with pytest.raises(ClosedError):
            call()
    assert record.data == bytes(view)


def test_in_a_forked_child_every_call_is_refused(log: LogHandle) -> None:
    """
    The child may close and drop the handle; the parent continues.
    """
    log.append(MESSAGE.form)
    view = log.acquire(0)
    shown = bytes(view)
    child = os.fork()
    if child == 0:
        wrong = 1
        try:
            refused = 0
            for call in _calls(log):
                try:
                    call()
                except ForkedError:
                    refused += 1
            log.close()
            assert refused == len(_calls(log))
            assert shown == bytes(view)
            del view, log
            wrong = 0
        finally:
            os._exit(wrong)

    assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    log.append(MESSAGE.form, LocalAck.SYNCED)
    assert 2 == log.scan(0).finish().records


def test_closing_under_running_calls_harms_no_caller(tmp_path: Path) -> None:
    """
    Threads see whole results until they see that the log is closed.
    """
    for number in range(10):
        log = open_log(make_root(tmp_path / str(number)))
        end = log.append(MESSAGE.form).end
        failed: list[BaseException] = []
        acknowledged: list[int] = []

        def work(
            log: LogHandle = log,
            failed: list[BaseException] = failed,
            acknowledged: list[int] = acknowledged,
            number: int = number,
            end: int = end,
        ) -> None:
            try:
                while True:
                    acknowledged.append(log.append(MESSAGE.form, number % 2).offset)
                    assert log.read(0).end == len(log.acquire(0, end))
                    log.scan(0).finish()
            except ClosedError:
                pass
            except BaseException as error:  # for the main thread
                failed.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        while len(acknowledged) < 20:
            pass
        log.close()
        for thread in threads:
            thread.join()

        assert [] == failed
        with LogReader(log.path) as reader:
            scanned = np.concatenate(list(reader.scan(0)))["offset"].tolist()
        assert set(acknowledged) <= set(scanned)


def test_many_threads_append_without_losing_a_record(log: LogHandle) -> None:
    """
    Each record is where its append said, and queue offsets have no gap.
    """
    found: list[tuple[int, bytes]] = []

    def work(thread: int) -> None:
        for number in range(100):
            body = b"%d-%d" % (thread, number)
            ack = LocalAck.SYNCED if number % 10 == 0 else LocalAck.LEADER
            found.append((log.append(Message("T", body).form, ack).offset, body))

    threads = [threading.Thread(target=work, args=[n]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 800 == len(found)
    for offset, body in found:
        assert body == log.read(offset).body
    rows = np.concatenate(list(log.scan(0)))
    assert list(range(800)) == sorted(rows["queue_offset"].tolist())
