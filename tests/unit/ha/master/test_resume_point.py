"""
Where a slave may go on, and why it may not.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.ha.master_bench import EMPTY, LOG, confirmed, shake
from lib.values import replace

from pystore.epochs.table import EpochTable
from pystore.ha.master.resume_point import (
    ResumePoint,
    begin_of_empty,
    find_resume_point,
    last_segment_start,
)
from pystore.ha.wire.codes import SlaveFlag, TruncateOutcome

CUT_PREFIX = replace(LOG, min_offset=2048)


def at(offset: int, epoch: int, **changes: Any) -> ResumePoint | str:
    """The answer to a slave that goes on at *offset* in *epoch*."""
    places = {"point": offset, "end_offset": offset, "start_offset": offset}
    body = confirmed(epoch=epoch, **{**places, **changes})
    return find_resume_point(body, LOG, None, is_member=True)


@pytest.mark.parametrize(
    ("offset", "epoch"),
    [(0, 1), (999, 1), (1000, 1), (1000, 2), (2500, 2), (2500, 4), (3000, 4)],
)
def test_a_point_within_its_epoch_is_agreed_to(offset: int, epoch: int) -> None:
    """Its start and its end are included; a member may resume, too."""
    assert at(offset, epoch) == ResumePoint(offset, offset)


@pytest.mark.parametrize("outcome", [TruncateOutcome.CUT, TruncateOutcome(0)])
def test_a_cut_and_nothing_to_cut_are_the_same_to_the_master(
    outcome: TruncateOutcome,
) -> None:
    """Both say: my log ends here, and it is yours so far."""
    assert at(1500, 2, outcome=outcome, bytes_cut=10) == ResumePoint(1500, 1500)


@pytest.mark.parametrize(
    ("offset", "epoch", "changes", "reason"),
    [
        (1001, 1, {}, "point 1001 is not in epoch 1, which has offsets 0 to 1000"),
        (999, 2, {}, "point 999 is not in epoch 2, which has offsets 1000 to 2500"),
        (2000, 4, {}, "point 2000 is not in epoch 4"),
        (1500, 3, {}, "epoch 3 of the consistent point is not in the epoch table"),
        (1500, -1, {}, "epoch -1 of the consistent point is not in the epoch table"),
        (3001, 4, {}, "resumes at offset 3001, the master's log ends at offset 3000"),
        (1500, 2, {"point": 1400}, "start 1500, end 1500 and point 1400"),
        (1500, 2, {"end_offset": 1600}, "start 1500, end 1600 and point 1500"),
        (1500, 2, {"start_offset": -1}, "start -1, end 1500"),
        (-1, 1, {}, "resync needed: the slave resumes at offset -1"),
    ],
)
def test_what_does_not_fit_the_table_is_no_agreement(
    offset: int, epoch: int, changes: dict[str, Any], reason: str
) -> None:
    """Each number is checked against the master's own."""
    found = at(offset, epoch, **changes)

    assert isinstance(found, str)
    assert reason in found


def test_the_refusal_of_a_start_below_the_minimum_names_the_held_offsets() -> None:
    """RMQ-R100: an answer, not a silence."""
    found = find_resume_point(confirmed(), CUT_PREFIX, None, is_member=True)

    assert found == (
        "resync needed: the slave resumes at offset 1500, the master's log holds "
        "offsets 2048 to 3000"
    )


def test_the_refusal_without_a_common_point_names_the_held_offsets() -> None:
    """The slave may wipe, and come back empty."""
    body = confirmed(outcome=TruncateOutcome.NO_COMMON_POINT, epoch=-1, point=-1)

    assert find_resume_point(body, LOG, None, is_member=False) == (
        "resync needed: no epoch is common to both logs, the master's log "
        "holds offsets 0 to 3000"
    )


def test_a_slave_that_could_not_cut_is_left_to_people() -> None:
    """The point is no record end there: two histories under one epoch."""
    found = find_resume_point(
        confirmed(outcome=TruncateOutcome.REFUSED), LOG, None, is_member=True
    )

    assert "could not cut its log at offset 1500" in str(found)


@pytest.mark.parametrize(
    ("log", "flags", "offset"),
    [
        (LOG, 0, 0),
        (LOG, 1, 2048),
        (CUT_PREFIX, 0, 2048),
        (CUT_PREFIX, 1, 2048),
        (replace(LOG, end_offset=2048), 1, 0),
        (replace(LOG, end_offset=2049), 1, 2048),
        (replace(LOG, end_offset=0), 1, 0),
        (replace(LOG, min_offset=3000), 0, 3000),
        (replace(LOG, min_offset=3000), 1, 3000),
    ],
)
def test_an_empty_slave_begins_with_the_log_or_with_its_last_segment(
    log: Any, flags: int, offset: int
) -> None:
    """It asked for the queue offsets as of there before it began."""
    assert offset == begin_of_empty(shake(flags=SlaveFlag(flags)), log)

    body = replace(EMPTY, start_offset=offset, end_offset=offset)
    found = find_resume_point(body, log, offset, is_member=False)
    assert ResumePoint(offset, 0, offset) == found


@pytest.mark.parametrize("begin", [None, 0, 4096])
def test_an_empty_slave_begins_above_0_only_with_its_queue_offsets(
    begin: int | None,
) -> None:
    """A20: without them a quiet queue would count from 0 again."""
    body = replace(EMPTY, start_offset=2048, end_offset=2048)
    found = find_resume_point(body, CUT_PREFIX, begin, is_member=False)
    assert "begins at offset 2048, and the queue offsets" in str(found)


def test_an_empty_slave_does_not_begin_below_the_minimum() -> None:
    """Retention passed the begin that it was told: it asks again."""
    found = find_resume_point(EMPTY, CUT_PREFIX, 0, is_member=False)
    assert "resync needed: the slave's empty log begins at offset 0" in str(found)


def test_a_member_does_not_come_back_empty() -> None:
    """What it held may be acknowledged; it has to leave the set first."""
    found = find_resume_point(EMPTY, LOG, None, is_member=True)

    assert "lists the slave in the set, and its log is empty" in str(found)


def test_a_member_is_empty_where_nothing_is_confirmed() -> None:
    """A new set begins so."""
    log = replace(LOG, confirm_offset=0)

    assert find_resume_point(EMPTY, log, None, is_member=True) == ResumePoint(0, 0, 0)


@pytest.mark.parametrize("body", [EMPTY, confirmed(epoch=2, point=1500)])
def test_bytes_without_an_epoch_are_not_agreed_to(body: Any) -> None:
    """RMQ-R188: they have no label."""
    log = replace(LOG, epochs=EpochTable.of([(2, 1600)]))

    assert isinstance(find_resume_point(body, log, None, is_member=False), str)


@given(st.integers(1, 50), st.integers(0, 200), st.integers(0, 200))
def test_the_last_segment_holds_the_last_byte(size: int, least: int, more: int) -> None:
    """Or the log begins there."""
    low = least - least % size
    log = replace(LOG, min_offset=low, end_offset=low + more, segment_size=size)
    start = last_segment_start(log)

    assert low <= start <= log.end_offset
    if more:
        assert start // size == (log.end_offset - 1) // size
        assert start == low or start % size == 0
