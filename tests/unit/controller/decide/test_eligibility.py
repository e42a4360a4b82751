"""
What a restart did to a log (B1, B2, B4).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from lib.controller.broker_set_driver import incarnation, start

from pystore.controller.decide.eligibility import standing_of
from pystore.controller.model.commands import Recovery
from pystore.controller.model.member import NOWHERE, Position
from pystore.controller.model.replica import Replica, Standing

BEFORE = Replica(
    2,
    "code",
    "host:2",
    incarnation(4),
    counter_max=4,
    boot_id="boot",
    recovered=Position(3, 100),
)
SEEN = Position(3, 500)
KEPT = replace(start(5, epoch=3, end=500), keeps_pages=True)


def _standing(
    recovery: Recovery | None,
    replica: Replica = BEFORE,
    seen: Position = SEEN,
    *,
    is_listed: bool = True,
) -> Standing:
    return standing_of(replica, recovery, seen, is_listed=is_listed)


@pytest.mark.parametrize(
    ("recovery", "expected"),
    [
        (KEPT, Standing.SOUND),
        (replace(KEPT, keeps_pages=False), Standing.RESTARTED),
        (replace(KEPT, boot_id="another"), Standing.RESTARTED),
        (replace(KEPT, boot_id=""), Standing.RESTARTED),
        (replace(KEPT, published_end=501), Standing.RESTARTED),
        (replace(KEPT, published_end=-1), Standing.RESTARTED),
        (replace(KEPT, position=Position(3, 499), published_end=1), Standing.RESTARTED),
        (replace(KEPT, position=Position(4, 400), published_end=1), Standing.SOUND),
        (start(5, epoch=3, end=100, is_clean=True), Standing.SOUND),
        (start(5, epoch=3, end=100, acks_flushed=True), Standing.SOUND),
        (start(5, epoch=3, end=100), Standing.RESTARTED),
        (replace(KEPT, is_lossy=True), Standing.LOSSY),
        (replace(KEPT, is_copy=True), Standing.COPIED),
        (start(5, epoch=3, end=0, is_clean=True), Standing.RESTARTED),
        (start(5, epoch=3, end=0, acks_flushed=True), Standing.RESTARTED),
        (start(6, epoch=3, end=500, is_clean=True), Standing.RESTARTED),
        (replace(KEPT, incarnation=incarnation(6)), Standing.RESTARTED),
        (start(6, epoch=3, end=100, acks_flushed=True), Standing.SOUND),
    ],
)
def test_a_restart_is_judged_by_what_may_have_been_lost(
    recovery: Recovery, expected: Standing
) -> None:
    """
    B2: page cache, clean mark and the end that was seen, unless a start came in between
    that no controller was told of; B4: own cuts. Emptied by order is not wiped.
    """
    assert _standing(recovery) is expected


@pytest.mark.parametrize("counter", [0, 3, 4])
def test_a_counter_that_does_not_rise_is_a_copy(counter: int) -> None:
    """B1: a clean mark of a restored store says nothing of what was written since."""
    restored = start(counter, epoch=3, end=500, bits=9, is_clean=True)

    assert _standing(restored) is Standing.COPIED


def test_the_same_process_is_what_it_was() -> None:
    """It registers again, after a lost answer or from another address."""
    said_again = start(4, epoch=3, end=0)

    for standing in Standing:
        assert _standing(said_again, replace(BEFORE, standing=standing)) is standing


@pytest.mark.parametrize("standing", set(Standing) - {Standing.SOUND})
def test_a_clean_restart_does_not_bring_lost_bytes_back(standing: Standing) -> None:
    """Only an admission does (B2)."""
    clean = start(5, epoch=3, end=500, is_clean=True)

    assert _standing(clean, replace(BEFORE, standing=standing)) is standing


def test_a_new_broker_has_lost_nothing() -> None:
    """Nobody counted on it yet."""
    new = Replica(2, "code", "host:2")

    assert _standing(start(1), new, NOWHERE, is_listed=False) is Standing.SOUND
    assert _standing(start(1, end=9), new, NOWHERE) is Standing.RESTARTED


def test_an_empty_log_behind_a_java_broker_is_a_new_disk_if_it_counts_from_one() -> (
    None
):
    """A store that was started before was emptied by order of a master (B1)."""
    java = Replica(2, "code", "host:2")

    assert _standing(start(1), java) is Standing.WIPED
    assert _standing(start(2), java) is Standing.RESTARTED


def test_a_java_broker_is_taken_at_its_word() -> None:
    """It tells nothing of its restarts; after one of pystore that is too little."""
    java = Replica(2, "code", "host:2")

    assert _standing(None, java) is Standing.SOUND
    assert _standing(None) is Standing.RESTARTED
