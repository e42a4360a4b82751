"""
Who rings wakes who sleeps, and nobody misses a ring.
"""

from __future__ import annotations

import threading

from pystore.ha.master.bell import Bell

LONG_MS = 10_000


def test_a_ring_after_the_look_is_not_slept_through() -> None:
    """The count of before tells that something changed since."""
    bell = Bell()
    rings = bell.rings
    bell.ring()

    sleeper = threading.Thread(target=bell.wait, args=(rings, LONG_MS), daemon=True)
    sleeper.start()
    sleeper.join(LONG_MS / 2000)

    assert not sleeper.is_alive()


def test_a_ring_wakes_everyone_who_sleeps() -> None:
    """Each of them looks for itself."""
    bell = Bell()
    ready = threading.Barrier(4)

    def sleep() -> None:
        rings = bell.rings
        ready.wait()
        bell.wait(rings, LONG_MS)

    threads = [threading.Thread(target=sleep) for _ in range(3)]
    for thread in threads:
        thread.start()
    ready.wait()
    bell.ring()
    for thread in threads:
        thread.join(LONG_MS / 1000)

    assert not any(thread.is_alive() for thread in threads)


def test_time_is_up_without_a_ring() -> None:
    """And no time at all is no sleep."""
    bell = Bell()
    bell.wait(bell.rings, 1)
    bell.wait(bell.rings, 0)
    bell.wait(bell.rings, -5)


def test_no_ring_is_lost_between_a_look_and_a_sleep() -> None:
    """A counter is handed over twenty thousand times, one ring each."""
    bell = Bell()
    state = {"made": 0, "seen": 0}

    def consume() -> None:
        while state["seen"] < 20_000:
            rings = bell.rings
            if state["made"] == state["seen"]:
                bell.wait(rings, LONG_MS)
            else:
                state["seen"] += 1

    thread = threading.Thread(target=consume)
    thread.start()
    for _ in range(20_000):
        state["made"] += 1
        bell.ring()
    thread.join(LONG_MS / 1000)

    assert not thread.is_alive()
