"""
Crashes in an opening that follows a crash, and in openings that mend.
"""

from __future__ import annotations

import random
import uuid

import pytest
from crash.proof import SEED, Proof

STORIES = [
    ("some", "append"),
    ("some", "roll"),
    ("segments", "cut"),
    ("segments", "retention"),
    ("queues", "queues"),
]


@pytest.mark.parametrize(("before", "story"), STORIES)
def test_a_crash_in_the_opening_after_a_kill_is_like_any_other(
    proof: Proof, before: str, story: str
) -> None:
    """A process was killed anywhere; then the next one crashes anywhere."""
    print(f"seed {SEED}")
    proof.prepare(before)
    killed = proof.record(story, kill_after=random.Random(SEED).randrange(20, 200))
    proof.take(killed)
    child = proof.record("again")
    assert 0 == child.code, child.output
    proof.look(child, 60)


@pytest.mark.parametrize(("before", "story"), STORIES)
def test_a_crash_in_the_opening_after_a_power_cut_is_like_any_other(
    proof: Proof, before: str, story: str
) -> None:
    """The same, but the machine stopped amid the first process."""
    draw = random.Random(SEED)
    print(f"seed {SEED}")
    proof.prepare(before)
    child = proof.record(story)
    proof.cut_power(child, draw)
    child = proof.record("again", boot_id=str(uuid.uuid4()))
    assert 0 == child.code, child.output
    proof.look(child, 60)
