"""
The waits of an idle worker.
"""

from __future__ import annotations

from random import Random

from pystore.autorecovery.idle_wait import IdleWait
from pystore.records.memory import MemorySpace, MemoryStore
from pystore.records.ops import Put


class Waits(MemoryStore):
    """
    A store that notes its waits and does not wait.
    """

    def __init__(self, space: MemorySpace) -> None:
        super().__init__(space)
        self.asked: list[tuple[float, str]] = []
        self.ended: list[bool] = []

    def wait(self, token: int, timeout_s: float, space: str = "") -> int:
        """
        Noted.
        """
        self.asked.append((timeout_s, space))
        after = super().wait(token, 0, space)
        self.ended.append(after != token)
        return after


def test_a_wait_is_bounded_and_different_each_time() -> None:
    """
    A holder that died is no commit, and workers do not look all at once.
    """
    slept: list[float] = []
    store = Waits(MemorySpace())
    idle = IdleWait(store, Random(3).random, slept.append)
    for _ in range(200):
        idle.wait()

    waited = [seconds for seconds, _ in store.asked]
    assert {"recovery"} == {space for _, space in store.asked}
    assert 2 <= min(slept) < 2.5
    assert 5.5 < max(slept) <= 6
    assert 4 <= min(waited) < 4.5
    assert 11.5 < max(waited) <= 12
    assert 200 == len(set(slept))


def test_a_commit_before_the_wait_ends_it_and_one_elsewhere_does_not() -> None:
    """
    Also one that came during the look or the sleep.
    """
    store = Waits(MemorySpace())
    other = MemoryStore(store.space)
    keys = iter(["recovery/ur/a", "controller/proof", "recovery/ur/b"])
    idle = IdleWait(
        store, Random(3).random, lambda _: not other.commit([Put(next(keys), b"")])
    )
    for _ in range(3):
        idle.wait()

    assert [True, False, True] == store.ended


def test_a_worker_that_is_told_to_stop_does_not_wait() -> None:
    """
    Its sleep ends, and it asks the record store nothing.
    """
    store = Waits(MemorySpace())
    IdleWait(store, Random(3).random, lambda _: True).wait()

    assert [] == store.asked
