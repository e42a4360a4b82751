"""
A notification wakes all waiters, and no waiter misses one.

A ring that is lost would cost its sleeper no more than the time that it gave itself.
So the sleepers here give themselves longer than the test waits for them.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pystore.ha.master.notifier import Notifier

WAIT_S = 20
"""The test waits so long for what takes milliseconds."""

FOREVER_MS = 3_600_000
"""A waiter that missed its notification is found asleep."""


def _started(work: Callable[[], None]) -> threading.Thread:
    """
    A thread that does not keep the process if the test fails.
    """
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_a_notification_after_the_check_ends_the_sleep() -> None:
    """The count of before tells that something changed since."""
    notifier = Notifier()
    rings = notifier.count
    notifier.notify()

    sleeper = _started(lambda: notifier.wait(rings, FOREVER_MS))
    sleeper.join(WAIT_S)

    assert not sleeper.is_alive()


def test_a_notification_wakes_all_waiters() -> None:
    """Each of them looks for itself."""
    notifier = Notifier()
    threads = [_started(lambda: notifier.wait(0, FOREVER_MS)) for _ in range(3)]
    while notifier.waiting < len(threads):
        threads[0].join(0)  # gives the interpreter away
    notifier.notify()
    for thread in threads:
        thread.join(WAIT_S)

    assert not any(thread.is_alive() for thread in threads)


def test_time_is_up_without_a_ring() -> None:
    """Not before; and no time at all is no sleep."""
    notifier = Notifier()
    slept_ns: list[int] = []

    def wait() -> None:
        start_ns = time.monotonic_ns()
        notifier.wait(notifier.count, 5)
        slept_ns.append(time.monotonic_ns() - start_ns)
        notifier.wait(notifier.count, 0)
        notifier.wait(notifier.count, -FOREVER_MS)

    sleeper = _started(wait)
    sleeper.join(WAIT_S)

    assert not sleeper.is_alive()
    assert slept_ns[0] >= 5_000_000


@pytest.fixture
def restless() -> Iterator[None]:
    """
    The interpreter goes from thread to thread as often as it can.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_no_notification_is_lost_between_a_check_and_a_sleep() -> None:
    """A counter is handed over twenty thousand times, one ring each."""
    notifier = Notifier()
    state = {"made": 0, "seen": 0}

    def consume() -> None:
        while state["seen"] < 20_000:
            rings = notifier.count
            if state["made"] == state["seen"]:
                notifier.wait(rings, FOREVER_MS)
            else:
                state["seen"] += 1

    consumer = _started(consume)
    for _ in range(20_000):
        state["made"] += 1
        notifier.notify()
    consumer.join(WAIT_S)

    assert not consumer.is_alive(), state


def test_helpers_run_in_the_thread_of_the_appender() -> None:
    """In that thread, until it helps no more."""
    notifier = Notifier()
    helped: list[int] = []

    def helper() -> bool:
        helped.append(threading.get_ident())
        return True

    notifier.add_helper(helper)
    notifier.notify()
    notifier.run_helpers()
    notifier.remove_helper(helper)
    notifier.run_helpers()

    assert helped == [threading.get_ident()]


def test_waiters_are_woken_for_work_that_helpers_leave() -> None:
    """All of them run; without a helper the work is left, too."""
    notifier = Notifier()
    answers = {"one": True, "other": True}
    notifier.run_helpers()
    assert notifier.count == 1
    notifier.add_helper(lambda: answers["one"])
    notifier.add_helper(lambda: answers["other"])
    notifier.run_helpers()
    assert notifier.count == 1
    for name in answers:
        answers.update(one=True, other=True)
        answers[name] = False
        notifier.run_helpers()

    assert notifier.count == 3
