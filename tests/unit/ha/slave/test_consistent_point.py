"""
Where two histories meet.
"""

from __future__ import annotations

import pytest
from lib.ha.slave_owner import ShortLog

from pystore.epochs.table import EpochEntry, EpochTable
from pystore.ha.slave.consistent_point import (
    MasterHistory,
    common_entry,
    epochs_of_log,
    find_consistent_point,
    find_legacy_consistent_point,
)
from pystore.ha.slave.effects import SlaveLog
from pystore.ha.wire.codes import TruncateOutcome

BYTES = bytes(range(64))


def log(
    size: int, *pairs: tuple[int, int], confirm: int = 0, start: int = 0
) -> SlaveLog:
    """A log of so many bytes."""
    return ShortLog(BYTES[:size], EpochTable.of(pairs), confirm, start).view()


def master(
    end: int, *pairs: tuple[int, int], epoch: int = 9, low: int = 0
) -> MasterHistory:
    """What a master said."""
    return MasterHistory(EpochTable.of(pairs), end, epoch, low)


def test_an_entry_above_our_end_is_not_ours() -> None:
    """
    RMQ-R144: it was durable before bytes that never came.
    """
    ours = log(16, (1, 0), (2, 24))

    assert [(1, 0)] == epochs_of_log(ours).pairs()
    assert EpochEntry(1, 0) == common_entry(ours, master(64, (1, 0), (2, 24)))
    met = find_consistent_point(ours, master(64, (1, 0), (2, 24)), may_wipe=False)
    assert (TruncateOutcome.NOTHING_TO_CUT, 16) == (met.outcome, met.point)
    assert met.cut == 16  # the table is cut, no byte is


def test_equal_histories_cut_nothing() -> None:
    """
    RMQ-R149.
    """
    met = find_consistent_point(
        log(16, (1, 0)), master(64, (1, 0), (2, 32)), may_wipe=False
    )

    assert (None, 0, 16, 1) == (met.cut, met.bytes_cut, met.point, met.epoch)


def test_a_half_record_goes() -> None:
    """
    The point is ours by whole records; the master sends the record again.
    """
    met = find_consistent_point(log(21, (1, 0)), master(64, (1, 0)), may_wipe=False)

    assert (TruncateOutcome.CUT, 16, 5) == (met.outcome, met.cut, met.bytes_cut)


@pytest.mark.parametrize("may_wipe", [False, True])
def test_a_point_below_either_log_is_none(may_wipe: bool) -> None:
    """
    Bytes that retention took, here or there.
    """
    outcome = TruncateOutcome.EMPTY if may_wipe else TruncateOutcome.NO_COMMON_POINT
    ours = log(16, (1, 0), (2, 1028), start=1024)
    for theirs in (master(64, (1, 0)), master(4096, (1, 0), low=2048)):
        met = find_consistent_point(ours, theirs, may_wipe=may_wipe)

        assert outcome is met.outcome
        assert may_wipe is met.is_wiped


def test_entries_without_bytes_are_wiped() -> None:
    """
    They would name bytes that come from elsewhere; nothing is lost.
    """
    assert find_consistent_point(
        log(0, (1, 0)), master(8, (1, 0)), may_wipe=False
    ).is_wiped
    assert find_legacy_consistent_point(
        log(0, (1, 0)), master(8, (1, 0)), may_wipe=False
    ).is_wiped
    assert not find_consistent_point(log(0), master(8, (1, 0)), may_wipe=False).is_wiped


def test_bytes_without_epochs_have_no_history() -> None:
    """
    RMQ-R147: Java trusts them by their length; their origin is unknown.
    """
    for met in (
        find_consistent_point(log(16), master(64, (1, 0)), may_wipe=False),
        find_legacy_consistent_point(log(16), master(64, (1, 0)), may_wipe=False),
    ):
        assert TruncateOutcome.NO_COMMON_POINT is met.outcome


@pytest.mark.parametrize(
    ("epoch", "outcome"), [(2, TruncateOutcome.REFUSED), (3, TruncateOutcome.CUT)]
)
def test_only_a_higher_epoch_cuts_below_confirm(
    epoch: int, outcome: TruncateOutcome
) -> None:
    """
    B4.
    """
    ours = log(32, (1, 0), (2, 8), confirm=24)
    met = find_consistent_point(
        ours, master(16, (1, 0), (2, 8), epoch=epoch), may_wipe=True
    )

    assert outcome is met.outcome


def test_a_legacy_master_is_compared_below_confirm() -> None:
    """
    B10: from the point; what is above its end goes first.
    """
    ours = log(40, (1, 0), confirm=24)
    met = find_legacy_consistent_point(
        ours, master(32, (1, 0), (2, 16)), may_wipe=False
    )

    assert (16, 32, 8) == (met.compare_from, met.cut, met.bytes_cut)
    met = find_legacy_consistent_point(ours, master(16, (1, 0)), may_wipe=False)
    assert TruncateOutcome.REFUSED is met.outcome


def test_a_legacy_master_is_believed_above_confirm() -> None:
    """
    Nothing that was confirmed goes.
    """
    met = find_legacy_consistent_point(
        log(40, (1, 0), confirm=16), master(32, (1, 0), (9, 16)), may_wipe=False
    )

    assert (None, 16) == (met.compare_from, met.cut)
