"""
Where two histories meet, and what a slave does to its log for it. Pure.

Bytes below the consistent point are equal on both sides (R275), those above go. A
cut below the confirm offset takes bytes that every member of the set held: the
election of a master with a higher epoch decides so, nothing else does (B4). A log
without a common point with the master is wiped if it is nobody's hope, and is left
alone otherwise (R148, R150).

Source: docs/protocol.md (K.3, CONFIRM_TRUNCATE), docs/crash-safety.md (B10).
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.epochs.table import NO_EPOCH, EpochEntry, EpochTable
from pystore.ha.slave.effects import SlaveLog
from pystore.ha.wire.codes import TruncateOutcome

__all__ = [
    "ConsistentPoint",
    "MasterHistory",
    "common_entry",
    "held_epochs",
    "meet",
    "meet_legacy",
]

_NO_POINT = -1


@dataclass(frozen=True, slots=True)
class MasterHistory:
    """
    What a master said of its log.

    Attributes:
        epochs: its table.
        end_offset: of its log, taken together with the table.
        epoch: under which it is master.
        min_offset: where its log begins; ``None``: it did not say (legacy).
    """

    epochs: EpochTable
    end_offset: int
    epoch: int
    min_offset: int | None = None


@dataclass(frozen=True, slots=True)
class ConsistentPoint:
    """
    What is to be done.

    Attributes:
        outcome: what CONFIRM_TRUNCATE says once it is done.
        epoch: of the consistent point, -1 if there is none.
        point: the consistent point, -1 if there is none.
        cut: where the log and its table are to end; ``None``: they stay.
        bytes_cut: that go.
        is_wiped: the log and its table are to hold nothing.
        compare_from: bytes from here to our end are to be compared with the
            master's before they count (B10); ``None``: none.
        reason: for people, of an outcome that ends the link.
    """

    outcome: TruncateOutcome
    epoch: int = NO_EPOCH
    point: int = _NO_POINT
    cut: int | None = None
    bytes_cut: int = 0
    is_wiped: bool = False
    compare_from: int | None = None
    reason: str = ""


def held_epochs(log: SlaveLog) -> EpochTable:
    """
    Returns our table as far as the log reaches (R144).
    """
    return log.epochs.drop_above(log.end_offset)


def common_entry(log: SlaveLog, master: MasterHistory) -> EpochEntry | None:
    """
    Returns the newest entry that both have, epoch and start; ``None``: none (R145).
    """
    theirs = set(master.epochs.drop_above(master.end_offset).entries)
    common = [entry for entry in held_epochs(log).entries if entry in theirs]
    return common[-1] if common else None


def meet(log: SlaveLog, master: MasterHistory, *, may_wipe: bool) -> ConsistentPoint:
    """
    Returns what a v3 slave does to meet its master.
    """
    if log.is_empty:
        return _empty(log)
    common, point = _consistent_point(log, master)
    lowest = max(log.min_offset, master.min_offset or 0)
    if common is None or point < lowest:
        if may_wipe:
            return ConsistentPoint(TruncateOutcome.EMPTY, is_wiped=True)
        return ConsistentPoint(
            TruncateOutcome.NO_COMMON_POINT, reason=_strangers(log, master, point)
        )
    ours = held_epochs(log).last_epoch
    if point < log.confirm_offset and master.epoch <= ours:
        return ConsistentPoint(
            TruncateOutcome.REFUSED,
            common.epoch,
            point,
            reason=f"the master of epoch {master.epoch} agrees with our log up to "
            f"{point} only, and up to {log.confirm_offset} it was confirmed in epoch "
            f"{ours}: compare the replicas, and elect the one with the longer log",
        )
    return _cut_at(log, common, point)


def meet_legacy(
    log: SlaveLog, master: MasterHistory, *, may_wipe: bool
) -> ConsistentPoint:
    """
    Returns what a slave does to meet a Java master (B10).

    A Java master does not tell empty epochs, nor those that began while a session
    was open (R137, R159), so its table may end too early: below the confirm offset
    nothing is cut unless its bytes differ. Where it lacks the epoch that the
    controller told us, its last entry may name bytes of several epochs, so what
    was never confirmed is compared as well.
    """
    if log.is_empty:
        return _empty(log)
    common, point = _consistent_point(log, master)
    if common is None or point < log.min_offset:
        entries = master.epochs.entries
        is_below = bool(entries) and log.received_offset <= entries[0].start_offset
        if may_wipe and is_below:
            return ConsistentPoint(TruncateOutcome.EMPTY, is_wiped=True)
        return ConsistentPoint(
            TruncateOutcome.NO_COMMON_POINT, reason=_strangers(log, master, point)
        )
    start = point
    if common == master.epochs.entries[-1] and master.epochs.last_epoch < master.epoch:
        start = min(point, max(common.start_offset, log.confirm_offset))
    if start >= log.confirm_offset and start == point:
        return _cut_at(log, common, point)
    end = min(log.end_offset, master.end_offset)
    if end < log.confirm_offset:
        return ConsistentPoint(
            TruncateOutcome.REFUSED,
            common.epoch,
            point,
            reason=f"the master's log ends at {master.end_offset}, and up to "
            f"{log.confirm_offset} ours was confirmed: elect the longer one",
        )
    gone = log.received_offset - end
    return ConsistentPoint(
        TruncateOutcome.CUT if gone else TruncateOutcome.NOTHING_TO_CUT,
        common.epoch,
        point,
        cut=end if gone else None,
        bytes_cut=gone,
        compare_from=start if start < end else None,
    )


def _consistent_point(
    log: SlaveLog, master: MasterHistory
) -> tuple[EpochEntry | None, int]:
    common = common_entry(log, master)
    point = log.epochs.consistent_point(
        master.epochs, log.end_offset, master.end_offset
    )
    return (None, _NO_POINT) if point is None else (common, point)


def _empty(log: SlaveLog) -> ConsistentPoint:
    # Entries without a byte would name bytes that come from elsewhere (R144).
    return ConsistentPoint(TruncateOutcome.EMPTY, is_wiped=bool(log.epochs.entries))


def _cut_at(log: SlaveLog, common: EpochEntry, point: int) -> ConsistentPoint:
    # A half record goes as well: the master sends it whole.
    gone = log.received_offset - point
    is_labelled = log.epochs.cut_suffix(point) != log.epochs
    return ConsistentPoint(
        TruncateOutcome.CUT if gone else TruncateOutcome.NOTHING_TO_CUT,
        common.epoch,
        point,
        cut=point if gone or is_labelled else None,
        bytes_cut=gone,
    )


def _strangers(log: SlaveLog, master: MasterHistory, point: int) -> str:
    ours = f"ours holds {log.min_offset} to {log.end_offset}"
    if point == _NO_POINT:
        return (
            f"resync needed: no epoch of the master's log is in ours ({ours}, "
            f"{len(log.epochs)} epochs); remove this replica from the set to let it "
            "be wiped, or take its store away"
        )
    begins = master.min_offset
    theirs = "" if begins is None else f", it holds {begins} to {master.end_offset}"
    return (
        f"resync needed: the master's log agrees with ours up to {point} only{theirs} "
        f"({ours}); remove this replica from the set to let it be wiped"
    )
