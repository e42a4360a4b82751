"""
The waits of an idle worker.
"""

from __future__ import annotations

from random import Random

import pytest

from pystore.autorecovery.idle_wait import IdleWait


@pytest.mark.parametrize(
    ("is_local", "least", "most"), [(False, 1.275, 1.725), (True, 0.51, 0.69)]
)
def test_a_wait_is_bounded_and_its_glances_are_irregular(
    *, is_local: bool, least: float, most: float
) -> None:
    """
    Workers do not ask all at once. One that asks a server asks less often.
    """
    slept: list[float] = []
    ends: list[float] = []
    idle = IdleWait(lambda: False, Random(3).random, slept.append, is_local=is_local)
    for _ in range(50):
        before = len(slept)
        idle.wait()
        ends.append(sum(slept[before:]))

    assert least <= min(slept) < least + 0.02
    assert most - 0.02 < max(slept) <= most
    assert len(slept) == len(set(slept))
    assert 24 <= min(ends) <= max(ends) < 26


def test_what_a_glance_finds_ends_the_wait() -> None:
    """
    At once.
    """
    slept: list[float] = []
    glances = iter([False, False, True])
    IdleWait(
        lambda: next(glances), Random(3).random, slept.append, is_local=True
    ).wait()

    assert 3 == len(slept)
    assert [] == list(glances)


def test_a_worker_that_is_told_to_stop_does_not_wait() -> None:
    """
    Its sleep ends, and it asks the record store nothing.
    """
    asked: list[int] = []

    def glance() -> bool:
        asked.append(1)
        return False

    IdleWait(glance, Random(3).random, lambda _: True, is_local=True).wait()

    assert [] == asked
