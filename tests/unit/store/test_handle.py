"""
A handle that is forgotten, forked, or open at the end of the interpreter.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lib.store.stores import SEGMENT, bodies, fill, message

from pystore.core.log_writer import LogHandle
from pystore.errors import ForkedError
from pystore.recovery.dry_run import inspect
from pystore.seals import list_seals
from pystore.store import open as opening
from pystore.store.commit_log import CommitLog
from pystore.store.handle import StoreHandle
from pystore.store.maintenance import open_log, open_store
from pystore.store.sealer import seal_next
from pystore.store.store import Store

OPENERS: dict[str, Callable[..., StoreHandle]] = {
    "CommitLog": partial(CommitLog, segment_size=SEGMENT),
    "Store": partial(Store, segment_size=SEGMENT),
    "open_log": partial(open_log, segment_size=SEGMENT),
    "open_store": partial(open_store, segment_size=SEGMENT),
}


@pytest.mark.parametrize("name", OPENERS)
def test_a_forgotten_handle_warns_and_frees_its_store(
    tmp_path: Path, name: str
) -> None:
    """
    The last reference closes it, cleanly, also if it has a maintenance thread.
    """
    handle = OPENERS[name](tmp_path / "store")
    with pytest.warns(ResourceWarning, match="unclosed .*use `with`, or close it"):
        del handle

    assert inspect(tmp_path / "store").plan.is_clean
    with OPENERS[name](tmp_path / "store"):
        pass


@pytest.mark.parametrize("name", OPENERS)
def test_a_closed_handle_does_not_warn(tmp_path: Path, name: str) -> None:
    """
    Nor does a reader, which holds no lock.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with OPENERS[name](tmp_path / "store"):
            pass
        OPENERS[name](tmp_path / "store", mode="r")
        gc.collect()


def test_a_handle_in_a_cycle_is_freed_by_the_collector(tmp_path: Path) -> None:
    """
    A store and its log are collected together, and warn once.
    """
    cycle: list[object] = [open_store(tmp_path / "store", segment_size=SEGMENT)]
    cycle.append(cycle)
    del cycle
    with pytest.warns(ResourceWarning, match="unclosed Store") as found:
        gc.collect()

    assert 1 == len(found)
    assert inspect(tmp_path / "store").plan.is_clean


@pytest.mark.parametrize("name", OPENERS)
def test_a_handle_in_a_cycle_is_closed_cleanly_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """
    A collection during the opening makes the log younger than its handle, and the
    collector then finalizes the log first.
    """

    def collect(*arguments: Any) -> LogHandle:
        gc.collect(0)
        return LogHandle(*arguments)

    monkeypatch.setattr(opening, "LogHandle", collect)
    cycle: list[object] = [OPENERS[name](tmp_path / "store")]
    cycle.append(cycle)
    del cycle
    with pytest.warns(ResourceWarning, match="unclosed"):
        gc.collect()

    assert inspect(tmp_path / "store").plan.is_clean


AT_EXIT = """
import sys
import pystore
handle = pystore.{0}(sys.argv[1], segment_size=65536)
log = getattr(handle, "log", handle)
for number in range(3):
    log.append(pystore.Message("Topic", b"body"))
"""


@pytest.mark.parametrize("name", OPENERS)
def test_a_normal_exit_closes_what_is_open(tmp_path: Path, name: str) -> None:
    """
    The store is clean, and nothing is printed.
    """
    code, root = AT_EXIT.format(name), tmp_path / "store"
    command = [sys.executable, "-X", "dev", "-c", code, str(root)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (0, "", "") == (run.returncode, run.stdout, run.stderr)
    assert inspect(root).plan.is_clean


AT_THE_VERY_END = """
import atexit, sys
kept = []
def open_late():
    import pystore
    kept.append(pystore.{0}(sys.argv[1], segment_size=65536))
atexit.register(open_late)
import pystore
pystore.{0}(sys.argv[1], segment_size=65536).close()
"""


@pytest.mark.parametrize("name", OPENERS)
def test_a_store_that_is_opened_while_the_interpreter_ends_does_not_hold_it(
    tmp_path: Path, name: str
) -> None:
    """
    No new thread runs then, and none that runs already.
    """
    code, root = AT_THE_VERY_END.format(name), tmp_path / "store"
    command = [sys.executable, "-c", code, str(root)]
    run = subprocess.run(command, capture_output=True, check=False, timeout=60)

    assert 0 == run.returncode
    with Store(root) as store:
        assert 0 == store.log.end_offset


def _child(work: Callable[[], object]) -> int:
    """
    Returns the exit code of a forked child: 0 after *work*, 1 if it raised, or that of
    the alarm if it took half a minute.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(30)
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("name", OPENERS)
def test_closing_in_a_child_ends_at_once_and_changes_nothing(
    tmp_path: Path, name: str
) -> None:
    """
    Also while another thread of the parent holds every lock of the handle.
    """
    handle = OPENERS[name](tmp_path / "store")
    log = handle.log if isinstance(handle, Store) else handle
    assert isinstance(log, CommitLog)
    fill(log, 3)
    is_held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with handle._lock, handle._closing_lock:
            is_held.set()
            assert may_end.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert is_held.wait(30)

    def use_with() -> None:
        with handle:
            pass
        handle.close()

    code = _child(use_with)
    may_end.set()
    holder.join()

    assert 0 == code
    fill(log, 1, first=3)
    assert [message(i).body for i in range(4)] == bodies(log)
    handle.close()
    assert inspect(tmp_path / "store").plan.is_clean


def _dispatch(store: Store) -> None:
    with pytest.raises(ForkedError, match="opened by the parent process"):
        store.dispatch()
    with pytest.raises(ForkedError):
        store.keep()
    with pytest.raises(ForkedError):
        store.read("Topic", 0, 99)
    with pytest.raises(ForkedError):
        store.cut(0)
    with pytest.raises(ForkedError):
        store.health  # noqa: B018


def test_a_child_waits_for_no_lock_of_its_parent(tmp_path: Path) -> None:
    """
    Every method raises, and does not wait for a thread that the child does not have.
    """
    with open_store(tmp_path / "store", segment_size=SEGMENT) as store:
        fill(store.log, 3)
        is_held, may_end = threading.Event(), threading.Event()

        def hold() -> None:
            with store._lock:
                is_held.set()
                assert may_end.wait(60)

        holder = threading.Thread(target=hold)
        holder.start()
        assert is_held.wait(30)
        code = _child(partial(_dispatch, store))
        may_end.set()
        holder.join()

        assert 0 == code
        assert (0, 1) == store.queue_range("Topic", 0)


def test_a_fork_at_any_time_never_hangs_and_never_changes_the_store(
    tmp_path: Path,
) -> None:
    """
    The maintenance runs without a pause while the children are forked.
    """
    with open_store(tmp_path / "store", segment_size=SEGMENT) as store:
        is_over = threading.Event()

        def keep_on() -> None:
            number = 0
            while not is_over.is_set():
                store.log.append(message(number))
                store.keep()
                number += 1

        keeper = threading.Thread(target=keep_on)
        keeper.start()
        try:
            codes = {_child(store.close) for _ in range(30)}
        finally:
            is_over.set()
            keeper.join()
        count = len(bodies(store.log))

    assert {0} == codes
    with Store(tmp_path / "store") as store:
        assert count == len(bodies(store.log))
        assert store.log.recovery.is_clean


def test_threads_that_keep_at_once_seal_each_segment_once(tmp_path: Path) -> None:
    """
    The caller may keep a store whose maintenance runs, too.
    """
    problems: list[BaseException] = []
    with Store(tmp_path, segment_size=SEGMENT) as store:
        fill(store.log, 2000)
        store.log.sync()
        full = store.log.end_offset // SEGMENT

        def work() -> None:
            try:
                for _ in range(full):
                    seal_next(store.log.writer)
            except BaseException as error:
                # The test fails with it.
                problems.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        while seal_next(store.log.writer):
            pass

    assert [] == problems
    assert full == len(list_seals(tmp_path / "meta" / "seals"))


def test_two_threads_may_close_at_once(tmp_path: Path) -> None:
    """
    Each returns when the store is closed.
    """
    handle = open_store(tmp_path / "store", segment_size=SEGMENT)
    threads = [threading.Thread(target=handle.close) for _ in range(4)]
    for thread in threads:
        thread.start()
    handle.close()
    with Store(tmp_path / "store") as again:
        assert again.log.recovery.is_clean
    for thread in threads:
        thread.join()
