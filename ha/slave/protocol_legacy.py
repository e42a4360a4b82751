"""
The slave's end of a connection to a Java master: AutoSwitchHA since 5.1.1. Pure.

The master answers the handshake with its epoch table; the first report says where
it begins to send, and is sent at once (R173). Reports are acks and heartbeats in
one. They carry what the log holds (R181), or, while bytes are compared with the
master's, what was compared (B10). The protocol has no session, no fence and no word
for a refusal, so every doubt ends the link.

Source: docs/protocol.md (formats 6.3 to 6.5), docs/crash-safety.md (B10).
"""

from __future__ import annotations

from pystore.epochs.table import EpochTable
from pystore.errors import InvalidError, RemoteViolation
from pystore.ha.slave.acks import confirmable
from pystore.ha.slave.block_epochs import BlockEpochs
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.consistent_point import (
    ConsistentPoint,
    MasterHistory,
    held_epochs,
    meet_legacy,
)
from pystore.ha.slave.divergence import Comparison, adopted_epochs
from pystore.ha.slave.effects import (
    Adopt,
    Append,
    Compare,
    Confirm,
    Cut,
    Retry,
    SlaveEffect,
    SlaveLog,
    Wipe,
)
from pystore.ha.slave.epoch_start import beginning_at
from pystore.ha.slave.protocol import MasterLink
from pystore.ha.wire.codes import LEGACY_EPOCH_MAX, AckStatus, TruncateOutcome
from pystore.ha.wire.effects import Promise
from pystore.ha.wire.legacy import (
    LegacyAck,
    LegacyData,
    LegacyEpochs,
    LegacyHandshake,
    decode_data,
    decode_epochs,
    encode_legacy,
)
from pystore.ha.wire.link_state import LinkEvent

__all__ = ["LegacySlaveProtocol"]


class LegacySlaveProtocol(MasterLink):
    """
    One link to a Java master. Satisfies `pystore.ha.slave.effects.SlaveProtocol`.

    Args:
        config: who we are and what we know; names, incarnation and checksums have no
            place in this protocol.
    """

    def __init__(self, config: SlaveConfig) -> None:
        super().__init__(config)
        self._labels = BlockEpochs(EpochTable())
        self._history = MasterHistory(EpochTable(), 0, config.known_epoch)
        self._meeting: ConsistentPoint | None = None
        self._comparison: Comparison | None = None
        self._told: LegacyData | None = None
        self._rest: memoryview | None = None
        self._reported = -1
        self._is_cut_short = False

    # -- the handshake -----------------------------------------------------

    def _greet(self, now_ms: int) -> None:
        self._meeting = self._comparison = self._told = self._rest = None
        self._reported, self._is_cut_short = -1, False
        config, log = self._config, self._log
        newest = max(config.known_epoch, held_epochs(log).last_epoch)
        if newest > LEGACY_EPOCH_MAX:
            self._close(
                f"epoch {newest} is above {LEGACY_EPOCH_MAX}, which a Java master "
                "cannot name: follow a master that speaks v3",
                Retry.OPERATOR,
            )
            return
        if config.is_suspended:
            self._close("a Java master cannot be told to wait", Retry.NEVER)
            return
        # With a report of 0 the flag would make a log with bytes skip some.
        is_from_last_file = config.is_from_last_file and log.is_empty
        shake = LegacyHandshake(config.broker_id, is_from_last_file, config.is_learner)
        self._send(encode_legacy(shake), now_ms)

    def _take(self, data: memoryview, now_ms: int) -> int:
        if self._meeting is None:
            answer = decode_epochs(data)
            if answer is None:
                return 0
            self._hear_epochs(answer[0], now_ms)
            return answer[1]
        found = decode_data(data, self._config.frame_bytes_max)
        if found is None:
            return 0
        self._hear_data(found[0])
        return found[1]

    def _hear_epochs(self, body: LegacyEpochs, now_ms: int) -> None:
        self._move(LinkEvent.HEARD_HANDSHAKE)
        try:
            table = EpochTable.of(body.entries)
        except InvalidError as error:  # the peer's numbers, not ours
            raise RemoteViolation(f"the master's epochs: {error}") from error
        if body.end_offset < 0 or table.last_epoch != body.last_epoch:
            raise RemoteViolation(
                f"a log that ends at {body.end_offset} in epoch {body.last_epoch}, "
                f"with a table that ends in epoch {table.last_epoch}"
            )
        known = self._config.epoch
        if known is not None and body.last_epoch > known:
            self._close(
                f"a master with bytes of epoch {body.last_epoch}, and the controller "
                f"said {known}",
                Retry.ASK_CONTROLLER,
            )
            return
        # A Java master has no entry of an epoch that began where the one before it
        # did (R137), so a table may end too early if the controller told the epoch.
        epoch = body.last_epoch if known is None else known
        if epoch < self._highest_epoch:
            self._stale(epoch)
            return
        self._master_end = body.end_offset
        self._labels = BlockEpochs(table)
        self._history = MasterHistory(table, body.end_offset, epoch)
        self._meeting = meet_legacy(
            self._log, self._history, may_wipe=self._config.may_wipe
        )
        if not self._promise(epoch):
            self._cut(now_ms)

    def _cut(self, now_ms: int) -> None:
        met = self._meeting
        if met is None:
            return
        if met.outcome in (TruncateOutcome.NO_COMMON_POINT, TruncateOutcome.REFUSED):
            self._close(met.reason, Retry.OPERATOR)
        elif met.is_wiped:
            self._do(Wipe())
        elif met.cut is not None:
            self._do(Cut(met.cut))
        else:
            self._begin(now_ms)

    def _begin(self, now_ms: int) -> None:
        start = None if self._meeting is None else self._meeting.compare_from
        if start is not None:
            self._comparison = Comparison(start, self._log.end_offset)
        self._begin_flow(now_ms)
        self._ack(now_ms)

    # -- data --------------------------------------------------------------

    def _hear_data(self, body: LegacyData) -> None:
        self._move(LinkEvent.HEARD_DATA)
        self._check_place(body)
        self._told, self._is_ack_due = body, True
        self._master_end = max(self._master_end or 0, body.offset + len(body.block))
        block = memoryview(body.block)
        if not block:
            self._apply_confirm()
            return
        label = (body.epoch, body.epoch_start)
        epoch = self._labels.epoch_of(body.offset, len(block), label)
        if self._config.epoch is not None and body.epoch > self._config.epoch:
            self._close(
                f"a block of epoch {body.epoch}, and the controller said "
                f"{self._config.epoch}",
                Retry.ASK_CONTROLLER,
            )
            return
        self._promise(epoch.epoch)
        if self._comparison is None:
            entry = beginning_at(self._log, body.offset, epoch)
            self._do(Append(body.offset, block, entry))
            return
        ours, self._rest = self._comparison.split(block)
        self._do(Compare(body.offset, ours))

    def _check_place(self, body: LegacyData) -> None:
        log, size = self._log, len(body.block)
        if self._comparison is None and log.is_empty:
            is_placed = body.offset >= 0 and (
                not size or body.offset % log.segment_size == 0
            )
            if is_placed or (body.offset == -1 and not size):
                return  # -1: the master has no log yet
        if body.offset != self._position:
            raise RemoteViolation(
                f"the block begins at {body.offset}, we asked for {self._position}"
            )

    def _apply_confirm(self) -> None:
        # What is being compared is not known to be the master's yet.
        if self._told is None or self._comparison is not None:
            return
        target = confirmable(self._log, self._told.confirm_offset)
        if target is not None:
            self._do(Confirm(target))

    # -- what became of effects --------------------------------------------

    def _carried_out(self, effect: SlaveEffect, now_ms: int) -> None:
        if isinstance(effect, Promise):
            if not self._is_flowing:
                self._cut(now_ms)
        elif isinstance(effect, Cut | Wipe) and self._is_cut_short:
            self._adopt_or_ask_again()
        elif isinstance(effect, Cut | Wipe):
            self._move(LinkEvent.LOG_CUT)
            self._begin(now_ms)
        elif isinstance(effect, Compare):
            self._matched(effect)
        elif isinstance(effect, Adopt) and self._is_cut_short:
            self._ask_again()
        elif isinstance(effect, Adopt):
            self._append_rest()
        elif isinstance(effect, Append):
            self._move(LinkEvent.LOG_APPENDED)
            self._apply_confirm()

    def _refused(
        self, effect: SlaveEffect, reason: str, status: AckStatus, now_ms: int
    ) -> None:
        del now_ms  # the protocol has no word for it: nothing is sent
        is_full = status is AckStatus.DISK_FULL
        self._close(
            f"{type(effect).__name__}: {reason}",
            Retry.SOON if is_full else Retry.OPERATOR,
        )

    # -- comparing ---------------------------------------------------------

    def _matched(self, effect: Compare) -> None:
        comparison = self._comparison
        if comparison is None:
            return
        comparison.matched(len(effect.block))
        if not comparison.is_over:
            return
        self._comparison = None
        table = self._adopted(self._log.end_offset)
        if table == self._log.epochs:
            self._append_rest()
        else:
            self._do(Adopt(table))

    def _append_rest(self) -> None:
        rest, self._rest = self._rest, None
        if not rest:
            self._apply_confirm()
            return
        offset = self._log.end_offset
        epoch = self._labels.epochs.find(offset)
        if epoch is None:
            raise RemoteViolation(f"the block at {offset} is of no epoch")
        self._do(Append(offset, rest, beginning_at(self._log, offset, epoch)))

    def differs(self, effect: Compare, offset: int, log: SlaveLog, now_ms: int) -> None:
        """
        Our bytes are not the master's: they go, and we ask again from there.
        """
        del effect, now_ms  # the end of what is equal says it all
        self._known = log
        if not self._is_open:
            return
        ours = held_epochs(log).last_epoch
        if offset < log.confirm_offset and self._history.epoch <= ours:
            # Nobody was elected who could have decided that (B4).
            self._close(
                f"the bytes from {offset} on are not the master's, and up to "
                f"{log.confirm_offset} they were confirmed in epoch {ours}: compare "
                "the replicas",
                Retry.OPERATOR,
            )
            return
        self._is_cut_short = True
        self._do(Cut(offset))

    def _adopt_or_ask_again(self) -> None:
        table = self._adopted(self._log.end_offset)
        if table == self._log.epochs:
            self._ask_again()
        else:
            self._do(Adopt(table))

    def _adopted(self, end: int) -> EpochTable:
        ours = self._log.epochs
        if not set(ours.entries) & set(self._labels.epochs.entries):
            return ours  # the cut took what was common: the next meeting decides
        return adopted_epochs(ours, self._labels.epochs, end)

    def _ask_again(self) -> None:
        self._close(
            f"our bytes from {self._log.end_offset} on were not the master's and are "
            "cut: asking again from there",
            Retry.SOON,
        )

    # -- reports -----------------------------------------------------------

    @property
    def _position(self) -> int:
        """
        What the master may believe: it is ours, and it is equal to its own.
        """
        if self._comparison is not None:
            return self._comparison.position
        return 0 if self._log.is_empty else self._log.received_offset

    def drained(self, now_ms: int) -> None:
        """
        Every frame that was received is dealt with: a report, if there is news.
        """
        if self._is_flowing and self._position != self._reported:
            self._ack(now_ms)

    def suspend(self, now_ms: int) -> None:
        """
        Closes: a Java master cannot be told to wait.
        """
        del now_ms  # nothing is sent
        if self._is_open:
            self._close("suspended: a Java master cannot be told to wait", Retry.NEVER)

    def resume(self, now_ms: int) -> None:
        """
        Nothing: a suspended link is closed, and its owner connects anew.
        """

    def _ack(self, now_ms: int) -> None:
        self._reported = self._position
        self._send(encode_legacy(LegacyAck(self._reported)), now_ms)

    def _say_goodbye(self, now_ms: int) -> None:
        self._ack(now_ms)
