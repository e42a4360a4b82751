"""
What keeps a master from serving, and for how long.
"""

from __future__ import annotations

import random

import pytest

from pystore.ha.insync.health import MasterHealth

LIMIT_MS = 100


def test_a_new_mastership_is_well() -> None:
    """
    No problem, and no moment to resign at.
    """
    health = MasterHealth(LIMIT_MS)

    assert ("", None) == (health.problem(0, 10**9), health.due_ms(0, 10**9))


def test_poison_lasts_from_its_first_moment() -> None:
    """
    A later notice of it changes nothing, and nothing mends it.
    """
    health = MasterHealth(LIMIT_MS)
    health.poisoned(5)
    health.poisoned(50)

    assert "a write-back failed" in health.problem(10**6, 10**6)
    assert 5 + LIMIT_MS + 1 == health.due_ms(10**6, 10**6)


def test_refused_appends_last_from_the_first_one_while_the_log_does_not_grow() -> None:
    """
    An append that was taken in between begins the time anew.
    """
    health = MasterHealth(LIMIT_MS)
    health.refused("no space", 700, 10)
    health.refused("no space left", 700, 60)
    assert "appends are refused: no space left" == health.problem(700, 60)
    assert 10 + LIMIT_MS + 1 == health.due_ms(700, 60)

    assert ("", None) == (health.problem(800, 61), health.due_ms(800, 61))
    health.refused("no space", 800, 90)
    assert 90 + LIMIT_MS + 1 == health.due_ms(800, 90)


def test_a_refusal_without_another_one_is_forgotten() -> None:
    """
    Nobody has tried for so long: there may be space again.
    """
    health = MasterHealth(LIMIT_MS)
    health.refused("no space", 700, 10)

    assert health.due_ms(700, 10 + LIMIT_MS) is not None
    assert health.due_ms(700, 11 + LIMIT_MS) is None
    health.refused("no space", 700, 500)
    assert 500 + LIMIT_MS + 1 == health.due_ms(700, 500)


@pytest.mark.parametrize("seed", range(20))
def test_the_moment_to_resign_is_that_of_the_oldest_problem(seed: int) -> None:
    """
    As a list of all that happened says, whatever it was.
    """
    draw = random.Random(seed)
    health = MasterHealth(LIMIT_MS)
    poisoned: list[int] = []
    refusals: list[int] = []
    end, now = 0, 0
    for _ in range(200):
        now += draw.randrange(60)
        what = draw.randrange(8)
        if what == 0 and seed % 2:
            health.poisoned(now)
            poisoned.append(now)
        elif what < 3:
            end += 1
            refusals = []
        else:
            if refusals and now - refusals[-1] > LIMIT_MS:
                refusals = []
            health.refused("full", end, now)
            refusals.append(now)
        is_fresh = bool(refusals) and now - refusals[-1] <= LIMIT_MS
        begun = poisoned[:1] + (refusals[:1] if is_fresh else [])
        expected = min(begun) + LIMIT_MS + 1 if begun else None
        assert expected == health.due_ms(end, now), f"seed {seed}"
