"""
The consistent point of two histories, and the cut that a slave needs. Pure.

Bytes below the consistent point are equal on both sides (RMQ-R275); bytes above it are
cut. A cut below the confirm offset removes bytes that every member of the set held:
only the election of a master with a higher epoch allows that (B4). A log without a
consistent point is wiped if no acknowledged record depends on it, and otherwise stays
(RMQ-R148, RMQ-R150).

Source: docs/protocol.md (RMQ-K.3, CONFIRM_TRUNCATE), B10.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.epochs.table import NO_EPOCH, EpochEntry, EpochTable
from pystore.ha.slave.effects import SlaveLog
from pystore.ha.wire.codes import TruncateFlag, TruncateOutcome
from pystore.ha.wire.frames import ConfirmTruncate

__all__ = [
    "ConsistentPoint",
    "MasterHistory",
    "common_entry",
    "epochs_of_log",
    "find_consistent_point",
    "find_legacy_consistent_point",
]

_NO_POINT = -1
_PLACED = (TruncateOutcome.NOTHING_TO_CUT, TruncateOutcome.CUT, TruncateOutcome.EMPTY)


@dataclass(frozen=True, slots=True)
class MasterHistory:
    """
    The history of a master's log.

    Attributes:
        epochs: its table.
        end_offset: of its log, at the same moment as the table.
        epoch: of its mastership.
        min_offset: where its log begins; ``None``: not known (legacy).
    """

    epochs: EpochTable
    end_offset: int
    epoch: int
    min_offset: int | None = None


@dataclass(frozen=True, slots=True)
class ConsistentPoint:
    """
    The consistent point, and what the slave must do.

    Attributes:
        outcome: of CONFIRM_TRUNCATE when it is done.
        epoch: of the consistent point, -1 if there is none.
        point: the consistent point, -1 if there is none.
        cut: where to cut the log and its table; ``None``: no cut.
        bytes_cut: how many bytes the cut removes.
        is_wiped: empty the log and its table.
        compare_from: bytes from here to the slave's end must be compared with the
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

    @property
    def is_placed(self) -> bool:
        """
        Whether there is a place from which the slave goes on.
        """
        return self.outcome in _PLACED

    def refused(self, reason: str) -> ConsistentPoint:
        """
        Returns what the slave tells after its own log refused the cut or the wipe.
        """
        what = "emptied" if self.is_wiped else f"cut at offset {self.cut}"
        return ConsistentPoint(
            TruncateOutcome.REFUSED,
            self.epoch,
            self.point,
            reason=f"the log could not be {what}: {reason}",
        )

    def confirmed(
        self, session_id: int, end_offset: int, flags: TruncateFlag
    ) -> ConfirmTruncate:
        """
        Returns what the slave tells its master when all is done.

        Args:
            session_id: of the handshake.
            end_offset: of the slave's log after the cut.
            flags: requests of the slave.
        """
        return ConfirmTruncate(
            session_id=session_id,
            epoch=self.epoch,
            point=self.point,
            end_offset=end_offset,
            bytes_cut=self.bytes_cut,
            start_offset=end_offset if self.is_placed else _NO_POINT,
            outcome=self.outcome,
            flags=flags,
        )


def epochs_of_log(log: SlaveLog) -> EpochTable:
    """
    Returns the slave's table without entries above the end of its log (RMQ-R144).
    """
    return log.epochs.drop_above(log.end_offset)


def common_entry(log: SlaveLog, master: MasterHistory) -> EpochEntry | None:
    """
    Returns the newest entry, epoch and start, that both have (RMQ-R145); ``None``:
    none.
    """
    theirs = set(master.epochs.drop_above(master.end_offset).entries)
    common = [entry for entry in epochs_of_log(log).entries if entry in theirs]
    return common[-1] if common else None


def find_consistent_point(
    log: SlaveLog, master: MasterHistory, *, may_wipe: bool
) -> ConsistentPoint:
    """
    Returns the consistent point with a v3 master.
    """
    if log.is_empty:
        return _empty(log)
    common, point = _common_point(log, master)
    lowest = max(log.min_offset, master.min_offset or 0)
    if common is None or point < lowest:
        if may_wipe:
            return ConsistentPoint(TruncateOutcome.EMPTY, is_wiped=True)
        return ConsistentPoint(
            TruncateOutcome.NO_COMMON_POINT, reason=_resync_reason(log, master, point)
        )
    ours = epochs_of_log(log).last_epoch
    if point < log.confirm_offset and master.epoch <= ours:
        return ConsistentPoint(
            TruncateOutcome.REFUSED,
            common.epoch,
            point,
            reason=f"the master of epoch {master.epoch} agrees with this replica's log "
            f"only up to offset {point}, and the log was confirmed up to offset "
            f"{log.confirm_offset} in epoch {ours}: compare the replicas, and elect "
            "the one with the longer log",
        )
    return _cut_at(log, common, point)


def find_legacy_consistent_point(
    log: SlaveLog, master: MasterHistory, *, may_wipe: bool
) -> ConsistentPoint:
    """
    Returns the consistent point with a Java master (B10).

    A Java master's table lacks empty epochs, and those that began while a session was
    open (RMQ-R137, RMQ-R159), so it may end too early. Below the confirm offset nothing
    is cut unless its bytes differ. If the table lacks the epoch of the controller's
    decision, its last entry may cover bytes of several epochs, so unconfirmed bytes are
    compared, too.
    """
    if log.is_empty:
        return _empty(log)
    common, point = _common_point(log, master)
    if common is None or point < log.min_offset:
        entries = master.epochs.entries
        is_below = bool(entries) and log.received_offset <= entries[0].start_offset
        if may_wipe and is_below:
            return ConsistentPoint(TruncateOutcome.EMPTY, is_wiped=True)
        return ConsistentPoint(
            TruncateOutcome.NO_COMMON_POINT, reason=_resync_reason(log, master, point)
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
            reason=f"the master's log ends at offset {master.end_offset}, and this "
            f"replica's was confirmed up to offset {log.confirm_offset}: elect the "
            "replica with the longer log",
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


def _common_point(
    log: SlaveLog, master: MasterHistory
) -> tuple[EpochEntry | None, int]:
    common = common_entry(log, master)
    point = log.epochs.consistent_point(
        master.epochs, log.end_offset, master.end_offset
    )
    return (None, _NO_POINT) if point is None else (common, point)


def _empty(log: SlaveLog) -> ConsistentPoint:
    # Entries without a byte would label bytes of another history (RMQ-R144).
    return ConsistentPoint(TruncateOutcome.EMPTY, is_wiped=bool(log.epochs.entries))


def _cut_at(log: SlaveLog, common: EpochEntry, point: int) -> ConsistentPoint:
    # The cut removes half a record, too: the master sends it whole.
    gone = log.received_offset - point
    is_labelled = log.epochs.cut_suffix(point) != log.epochs
    return ConsistentPoint(
        TruncateOutcome.CUT if gone else TruncateOutcome.NOTHING_TO_CUT,
        common.epoch,
        point,
        cut=point if gone or is_labelled else None,
        bytes_cut=gone,
    )


def _resync_reason(log: SlaveLog, master: MasterHistory, point: int) -> str:
    ours = f"this replica's log holds offsets {log.min_offset} to {log.end_offset}"
    if point == _NO_POINT:
        return (
            f"resync needed: this replica has no epoch of the master's log ({ours} in "
            f"{len(log.epochs)} epochs); remove this replica from the set, then its "
            "log is emptied, or move its store away"
        )
    begins = master.min_offset
    theirs = (
        "" if begins is None else f", and holds offsets {begins} to {master.end_offset}"
    )
    return (
        f"resync needed: the master's log agrees with this replica's only up to offset "
        f"{point}{theirs} ({ours}); remove this replica from the set, then its log is "
        "emptied"
    )
