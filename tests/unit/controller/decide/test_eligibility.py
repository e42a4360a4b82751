"""
The standing of a log after a restart (B1, B2, B4).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from lib.controller.broker_set_driver import incarnation, start

from pystore.controller.decide.eligibility import standing_of
from pystore.controller.model.commands import Recovery
from pystore.controller.model.log_end import NOWHERE, LogEnd
from pystore.controller.model.replica import (
    LogStanding,
    OriginalProcess,
    RegisteredBroker,
)

BEFORE = RegisteredBroker(
    2,
    "code",
    "host:2",
    incarnation(4),
    counter_max=4,
    boot_id="boot",
    recovered=LogEnd(3, 100),
)
SEEN = LogEnd(3, 500)
KEPT = replace(start(5, epoch=3, end=500), keeps_pages=True)


def _standing(
    recovery: Recovery | None,
    replica: RegisteredBroker = BEFORE,
    seen: LogEnd = SEEN,
    *,
    is_listed: bool = True,
) -> LogStanding:
    return standing_of(replica, recovery, seen, is_listed=is_listed)


@pytest.mark.parametrize(
    ("recovery", "expected"),
    [
        (KEPT, LogStanding.SOUND),
        (replace(KEPT, keeps_pages=False), LogStanding.RESTARTED),
        (replace(KEPT, boot_id="another"), LogStanding.RESTARTED),
        (replace(KEPT, boot_id=""), LogStanding.RESTARTED),
        (replace(KEPT, published_end=501), LogStanding.RESTARTED),
        (replace(KEPT, published_end=-1), LogStanding.RESTARTED),
        (
            replace(KEPT, position=LogEnd(3, 499), published_end=1),
            LogStanding.RESTARTED,
        ),
        (replace(KEPT, position=LogEnd(4, 400), published_end=1), LogStanding.SOUND),
        (start(5, epoch=3, end=100, is_clean=True), LogStanding.SOUND),
        (start(5, epoch=3, end=100, acks_flushed=True), LogStanding.SOUND),
        (start(5, epoch=3, end=100), LogStanding.RESTARTED),
        (replace(KEPT, is_lossy=True), LogStanding.LOSSY),
        (replace(KEPT, is_copy=True), LogStanding.COPIED),
        (start(5, epoch=3, end=0, is_clean=True), LogStanding.RESTARTED),
        (start(5, epoch=3, end=0, acks_flushed=True), LogStanding.RESTARTED),
        (start(6, epoch=3, end=500, is_clean=True), LogStanding.RESTARTED),
        (replace(KEPT, incarnation=incarnation(6)), LogStanding.RESTARTED),
        (start(6, epoch=3, end=100, acks_flushed=True), LogStanding.SOUND),
    ],
)
def test_the_standing_after_a_restart_depends_on_the_possible_loss(
    recovery: Recovery, expected: LogStanding
) -> None:
    """
    B2: page cache, clean mark and the end that was seen, unless a start came in between
    that was not reported; B4: own cuts. Emptied by order is not wiped.
    """
    assert _standing(recovery) is expected


@pytest.mark.parametrize("counter", [0, 3, 4])
def test_a_counter_that_does_not_rise_is_a_copy(counter: int) -> None:
    """B1: a clean mark of a restored store says nothing of what was written since."""
    restored = start(counter, epoch=3, end=500, bits=9, is_clean=True)

    assert _standing(restored) is LogStanding.COPIED


def test_the_same_process_is_what_it_was() -> None:
    """It registers again, after a lost answer or from another address."""
    said_again = start(4, epoch=3, end=0)

    for standing in LogStanding:
        assert _standing(said_again, replace(BEFORE, standing=standing)) is standing


@pytest.mark.parametrize(
    "standing", [one for one in LogStanding if one is not LogStanding.SOUND]
)
def test_a_clean_restart_does_not_bring_lost_bytes_back(standing: LogStanding) -> None:
    """Only an admission does (B2)."""
    clean = start(5, epoch=3, end=500, is_clean=True)

    assert _standing(clean, replace(BEFORE, standing=standing)) is standing


def test_a_new_broker_has_lost_nothing() -> None:
    """It has not acknowledged anything yet."""
    new = RegisteredBroker(2, "code", "host:2")

    assert _standing(start(1), new, NOWHERE, is_listed=False) is LogStanding.SOUND
    assert _standing(start(1, end=9), new, NOWHERE) is LogStanding.RESTARTED


def test_an_empty_log_behind_a_java_broker_is_a_new_disk_if_it_counts_from_one() -> (
    None
):
    """A store that was started before was emptied by order of a master (B1)."""
    java = RegisteredBroker(2, "code", "host:2")

    assert _standing(start(1), java) is LogStanding.WIPED
    assert _standing(start(2), java) is LogStanding.RESTARTED


def test_a_java_broker_is_trusted_after_a_restart() -> None:
    """It reports no restarts; after a process of pystore that is not enough."""
    java = RegisteredBroker(2, "code", "host:2")

    assert _standing(None, java) is LogStanding.SOUND
    assert _standing(None) is LogStanding.RESTARTED


FIRST, BEFORE_IT, OTHER = incarnation(4), incarnation(3), incarnation(5, 7)
COPIED = replace(
    BEFORE,
    incarnation=OTHER,
    counter_max=5,
    standing=LogStanding.COPIED,
    original=OriginalProcess(FIRST, 4, "boot", LogStanding.SOUND),
)


@pytest.mark.parametrize(
    ("replica", "recovery", "expected"),
    [
        # The recorded start, whatever the numbers say.
        (BEFORE, replace(KEPT, starts=(FIRST,)), LogStanding.SOUND),
        (
            replace(BEFORE, counter_max=9),
            replace(KEPT, starts=(FIRST,)),
            LogStanding.SOUND,
        ),
        # Starts that no controller heard of may have lost the end of the log.
        (
            replace(BEFORE, counter_max=9),
            replace(KEPT, starts=(FIRST, OTHER)),
            LogStanding.RESTARTED,
        ),
        # Another store, by its number.
        (
            BEFORE,
            replace(KEPT, incarnation=incarnation(4, 8), starts=(BEFORE_IT,)),
            LogStanding.COPIED,
        ),
        # A record that is older than the store.
        (
            BEFORE,
            replace(KEPT, incarnation=incarnation(9), starts=(incarnation(8),)),
            LogStanding.RESTARTED,
        ),
        # The store that gave way to a copy comes back.
        (COPIED, replace(KEPT, starts=(FIRST,)), LogStanding.SOUND),
        (COPIED, replace(KEPT, starts=(FIRST, OTHER)), LogStanding.RESTARTED),
        (
            COPIED,
            replace(KEPT, keeps_pages=False, starts=(FIRST,)),
            LogStanding.RESTARTED,
        ),
        (COPIED, replace(KEPT, is_copy=True, starts=(FIRST,)), LogStanding.COPIED),
        (COPIED, replace(KEPT, is_lossy=True, starts=(FIRST,)), LogStanding.LOSSY),
        (COPIED, replace(KEPT, incarnation=FIRST), LogStanding.SOUND),
        # The copy goes on, or a third one comes.
        (
            COPIED,
            replace(KEPT, incarnation=incarnation(6, 7), starts=(OTHER,)),
            LogStanding.COPIED,
        ),
        (
            COPIED,
            replace(KEPT, incarnation=incarnation(9, 9), starts=(BEFORE_IT,)),
            LogStanding.COPIED,
        ),
        # The copy starts again after the store came back.
        (
            replace(BEFORE, strange=OTHER),
            replace(KEPT, incarnation=incarnation(6, 7), starts=(OTHER,)),
            LogStanding.COPIED,
        ),
        (
            replace(BEFORE, strange=OTHER),
            replace(KEPT, incarnation=OTHER),
            LogStanding.COPIED,
        ),
    ],
)
def test_the_starts_that_a_store_names_tell_it_from_a_copy(
    replica: RegisteredBroker, recovery: Recovery, expected: LogStanding
) -> None:
    """
    B1: counters of two stores are the same by chance, starts are not.
    """
    assert expected is _standing(recovery, replica)
