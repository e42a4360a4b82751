"""
A waiter returns when its offset is reached, at its timeout, or at the end.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator

import pytest

from pystore.bindings.ffi import lib
from pystore.core.waits import OffsetWaiters, WaitOutcome
from pystore.errors import ForkedError, InvalidError

LONG_MS = 60_000


class Waiter(threading.Thread):
    """A thread with one wait."""

    def __init__(self, waits: OffsetWaiters, mark: int, end_offset: int) -> None:
        super().__init__(daemon=True)
        self.asked = waits, mark, end_offset
        self.outcome: WaitOutcome | None = None

    def run(self) -> None:
        """Waits."""
        waits, mark, end_offset = self.asked
        self.outcome = waits.wait(mark, end_offset, LONG_MS)

    def came_back(self) -> WaitOutcome | None:
        """How it ended; nothing if it still waits."""
        self.join(LONG_MS / 1000)
        return self.outcome


def _wait_all(waits: OffsetWaiters, asked: Iterable[tuple[int, int]]) -> list[Waiter]:
    """One thread each, all of which wait when this returns."""
    threads = [Waiter(waits, mark, end) for mark, end in asked]
    for thread in threads:
        thread.start()
    _until_waiting(waits, len(threads))
    return threads


def _until_waiting(waits: OffsetWaiters, count: int) -> None:
    while waits.waiting != count:
        os.sched_yield()


def test_a_reached_offset_needs_no_wait() -> None:
    """Nor does a timeout of 0 wait, and a mark never falls."""
    waits = OffsetWaiters(2)
    waits.raise_to(1, 500)
    waits.raise_to(1, 300)

    assert [0, 500] == [waits.mark(0), waits.mark(1)]
    assert WaitOutcome.REACHED is waits.wait(1, 500, LONG_MS)
    assert WaitOutcome.REACHED is waits.wait(0, 0, 0)
    assert WaitOutcome.EXPIRED is waits.wait(1, 501, 0)
    assert WaitOutcome.EXPIRED is waits.wait(1, 501, -5)
    assert 0 == waits.waiting


def test_outcomes_are_the_constants_of_the_header() -> None:
    """Same names, same numbers."""
    names = {name: int(value) for name, value in WaitOutcome.__members__.items()}

    assert names == {
        name.removeprefix("PS_WAIT_"): getattr(lib, name)
        for name in dir(lib)
        if name.startswith("PS_WAIT_")
    }


def test_threads_return_when_their_own_offset_is_reached() -> None:
    """Offsets in no order, on two marks; waiters for higher offsets still wait."""
    waits = OffsetWaiters(2)
    ends = [70, 10, 30, 20, 30, 60]
    threads = _wait_all(waits, [(number % 2, end) for number, end in enumerate(ends)])

    waits.raise_to(0, 30)
    waits.raise_to(1, 30)
    back = [thread for thread in threads if thread.asked[2] <= 30]

    assert [WaitOutcome.REACHED] * 4 == [thread.came_back() for thread in back]
    assert 2 == waits.waiting

    waits.raise_to(0, 70)
    waits.raise_to(1, 70)

    assert {WaitOutcome.REACHED} == {thread.came_back() for thread in threads}


def test_every_waiter_returns_at_the_end() -> None:
    """A later caller does not wait, and gets reached offsets."""
    waits = OffsetWaiters(1)
    threads = _wait_all(waits, [(0, end) for end in range(1, 9)])
    waits.end()
    waits.end()

    assert [WaitOutcome.ENDED] * 8 == [thread.came_back() for thread in threads]
    assert WaitOutcome.ENDED is waits.wait(0, 1, LONG_MS)
    waits.raise_to(0, 1)
    assert WaitOutcome.REACHED is waits.wait(0, 1, LONG_MS)


def test_a_wait_ends_at_its_timeout() -> None:
    """Also one that is longer than one sleep of the core."""
    waits = OffsetWaiters(1)
    begun = time.monotonic()
    outcome = waits.wait(0, 1, 250)

    assert WaitOutcome.EXPIRED is outcome
    assert time.monotonic() - begun >= 0.25
    assert 0 == waits.waiting


def test_a_wait_in_the_main_thread_can_be_interrupted() -> None:
    """Ctrl-C ends a long wait."""
    waits = OffsetWaiters(1)

    def interrupt() -> None:
        _until_waiting(waits, 1)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        waits.wait(0, 1, LONG_MS)
    thread.join()

    assert 0 == waits.waiting


def test_a_raise_under_a_lock_that_woken_waiters_take_does_not_block() -> None:
    """A thread may raise under a lock that a woken waiter takes next."""
    waits, lock = OffsetWaiters(1), threading.Lock()
    rounds, count = 200, 8
    back = [0] * count

    def go_round(number: int) -> None:
        for end in range(1, rounds + 1):
            assert WaitOutcome.REACHED is waits.wait(0, end, LONG_MS)
            with lock:
                back[number] = end

    threads = [threading.Thread(target=go_round, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for end in range(1, rounds + 1):
        _until_waiting(waits, count)
        with lock:
            waits.raise_to(0, end)
    for thread in threads:
        thread.join(LONG_MS / 1000)

    assert [rounds] * count == back


def test_waits_of_every_length_are_answered_truly() -> None:
    """Threads that are reached and that expire at once, in no order."""
    seed = random.randrange(sys.maxsize)
    print("seed", seed)
    waits = OffsetWaiters(3)
    wrong: list[tuple[int, int, WaitOutcome]] = []
    counts = dict.fromkeys(WaitOutcome, 0)

    def wait(own: random.Random) -> None:
        outcome = WaitOutcome.REACHED
        while outcome is not WaitOutcome.ENDED:
            mark = own.randrange(3)
            end = waits.mark(mark) + own.randrange(4)
            outcome = waits.wait(mark, end, own.choice((1, 2, LONG_MS)))
            if outcome is WaitOutcome.REACHED and waits.mark(mark) < end:
                wrong.append((mark, end, outcome))
            counts[outcome] += 1  # not exact among threads, but never nothing

    seeds = random.Random(seed)
    threads = [
        threading.Thread(target=wait, args=(random.Random(seeds.random()),))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    while counts[WaitOutcome.REACHED] < 2000 or counts[WaitOutcome.EXPIRED] < 20:
        mark = seeds.randrange(3)
        waits.raise_to(mark, waits.mark(mark) + seeds.randrange(3))
    waits.end()
    for thread in threads:
        thread.join(LONG_MS / 1000)

    assert [] == wrong
    assert not any(thread.is_alive() for thread in threads)
    assert 0 == waits.waiting


@pytest.fixture
def parents() -> Iterator[OffsetWaiters]:
    """Made by the parent, with a thread of it that waits."""
    waits = OffsetWaiters(1)
    (thread,) = _wait_all(waits, [(0, 100)])
    yield waits
    waits.raise_to(0, 100)
    assert WaitOutcome.REACHED is thread.came_back()


def test_a_forked_child_gets_an_error_instead_of_a_wait(parents: OffsetWaiters) -> None:
    """The child has none of the threads that raise."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            parents.wait(0, 1, LONG_MS)
        except ForkedError:  # as it should be
            parents.raise_to(0, 100)
            parents.end()
            code = int(parents.wait(0, 100, LONG_MS) is not WaitOutcome.REACHED)
        finally:
            os._exit(code)

    assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("marks", [0, 9, -1, 1 << 40, "one"])
def test_a_number_of_marks_that_cannot_be_is_refused(marks: int) -> None:
    """There are one to eight."""
    with pytest.raises(InvalidError):
        OffsetWaiters(marks)


def test_marks_and_offsets_that_cannot_be_are_refused() -> None:
    """In every call, with the number in the text."""
    waits = OffsetWaiters(2)

    with pytest.raises(InvalidError, match="no mark 2: there are 2"):
        waits.raise_to(2, 1)
    with pytest.raises(InvalidError, match="no mark 2: there are 2"):
        waits.wait(2, 1, 0)
    with pytest.raises(InvalidError, match="no mark 2"):
        waits.mark(2)
    with pytest.raises(InvalidError, match="no mark -1"):
        waits.mark(-1)
    with pytest.raises(InvalidError, match="mark 0 to -1"):
        waits.raise_to(0, -1)
    with pytest.raises(InvalidError, match="mark 0 at -1"):
        waits.wait(0, -1, 0)
