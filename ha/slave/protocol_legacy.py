"""
The slave's end of a connection to a Java master: AutoSwitchHA since 5.1.1. Pure.

The master answers the handshake with its epoch table. The first report tells it where
to begin, and is sent at once (RMQ-R173). Reports are acks and heartbeats at the same
time. They carry the end of the log (RMQ-R181), or, while bytes are compared with the
master's, the end of the compared bytes (B10). The protocol has no session, no fencing
and no refusal, so the slave closes the link in every doubtful case.

Source: docs/protocol.md (formats 6.3 to 6.5), B10.
"""

from __future__ import annotations

from pystore.epochs.table import EpochTable
from pystore.errors import InvalidError, RemoteViolation
from pystore.ha.slave.acks import next_confirm_offset
from pystore.ha.slave.block_epochs import BlockEpochs
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.consistent_point import (
    ConsistentPoint,
    MasterHistory,
    epochs_of_log,
    find_legacy_consistent_point,
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
from pystore.ha.slave.epoch_start import new_epoch_at
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
        config: of the slave; this protocol carries no names, incarnation or
            checksums.
    """

    def __init__(self, config: SlaveConfig) -> None:
        super().__init__(config)
        self._block_epochs = BlockEpochs(EpochTable())
        self._history = MasterHistory(EpochTable(), 0, config.known_epoch)
        self._consistent_point: ConsistentPoint | None = None
        self._comparison: Comparison | None = None
        self._last_data: LegacyData | None = None
        self._rest: memoryview | None = None
        self._reported = -1
        self._is_cut_short = self._is_learner = False

    # -- the handshake -----------------------------------------------------

    def _start_handshake(self, now_ms: int) -> None:
        self._consistent_point = self._comparison = self._last_data = self._rest = None
        self._reported, self._is_cut_short = -1, False
        config, log = self._config, self._log
        newest = max(config.known_epoch, epochs_of_log(log).last_epoch)
        if newest > LEGACY_EPOCH_MAX:
            self._close(
                f"epoch {newest} is above {LEGACY_EPOCH_MAX}, the highest of the "
                "legacy protocol: follow a master that speaks v3",
                Retry.OPERATOR,
            )
            return
        if config.is_suspended:
            self._close("the legacy protocol cannot suspend a session", Retry.NEVER)
            return
        # With a report of 0 the flag would make a log with bytes skip some.
        is_from_last_file = config.is_from_last_file and log.is_empty
        # A controller of RocketMQ elects any member, also one without records (B11).
        self._is_learner = config.is_learner or log.is_filling
        shake = LegacyHandshake(config.broker_id, is_from_last_file, self._is_learner)
        self._send(encode_legacy(shake), now_ms)

    def _take(self, data: memoryview, now_ms: int) -> int:
        if self._consistent_point is None:
            answer = decode_epochs(data)
            if answer is None:
                return 0
            self._take_epochs(answer[0], now_ms)
            return answer[1]
        found = decode_data(data, self._config.frame_bytes_max)
        if found is None:
            return 0
        self._take_data(found[0])
        return found[1]

    def _take_epochs(self, body: LegacyEpochs, now_ms: int) -> None:
        self._move(LinkEvent.RECEIVED_HANDSHAKE)
        try:
            table = EpochTable.of(body.entries)
        except InvalidError as error:  # the peer's numbers
            raise RemoteViolation(f"the master's epochs: {error}") from error
        if body.end_offset < 0 or table.last_epoch != body.last_epoch:
            raise RemoteViolation(
                f"a log that ends at offset {body.end_offset} in epoch "
                f"{body.last_epoch}, with a table that ends in epoch {table.last_epoch}"
            )
        known = self._config.epoch
        if known is not None and body.last_epoch > known:
            self._close(
                f"the master has bytes of epoch {body.last_epoch}, and the controller "
                f"named epoch {known}",
                Retry.ASK_CONTROLLER,
            )
            return
        # A Java master has no entry of an epoch that began where the one before it
        # did (RMQ-R137), so its table may end before the controller's epoch.
        epoch = body.last_epoch if known is None else known
        if epoch < self._highest_epoch:
            self._stale(epoch)
            return
        self._master_end = body.end_offset
        self._block_epochs = BlockEpochs(table)
        self._history = MasterHistory(table, body.end_offset, epoch)
        if not self._promise(epoch):
            self._cut(now_ms)

    def _cut(self, now_ms: int) -> None:
        # After the promise, which takes a disk's time: B15 asks at the last moment.
        found = find_legacy_consistent_point(
            self._log, self._history, may_wipe=self._config.may_wipe()
        )
        self._consistent_point = found
        if found.outcome in (TruncateOutcome.NO_COMMON_POINT, TruncateOutcome.REFUSED):
            self._close(found.reason, Retry.OPERATOR)
        elif found.is_wiped:
            self._add_effect(Wipe())
        elif found.cut is not None:
            self._add_effect(Cut(found.cut))
        else:
            self._begin(now_ms)

    def _begin(self, now_ms: int) -> None:
        start = (
            None
            if self._consistent_point is None
            else self._consistent_point.compare_from
        )
        if start is not None:
            self._comparison = Comparison(start, self._log.end_offset)
        self._begin_flow(now_ms)
        self._ack(now_ms)

    # -- data --------------------------------------------------------------

    def _take_data(self, body: LegacyData) -> None:
        self._move(LinkEvent.RECEIVED_DATA)
        self._check_place(body)
        self._last_data, self._is_ack_due = body, True
        self._master_end = max(self._master_end or 0, body.offset + len(body.block))
        block = memoryview(body.block)
        if not block:
            self._apply_confirm()
            return
        label = (body.epoch, body.epoch_start)
        epoch = self._block_epochs.epoch_of(body.offset, len(block), label)
        if self._config.epoch is not None and body.epoch > self._config.epoch:
            self._close(
                f"a block of epoch {body.epoch}, and the controller named epoch "
                f"{self._config.epoch}",
                Retry.ASK_CONTROLLER,
            )
            return
        self._promise(epoch.epoch)
        if self._comparison is None:
            entry = new_epoch_at(self._log, body.offset, epoch)
            self._add_effect(Append(body.offset, block, entry))
            return
        ours, self._rest = self._comparison.split(block)
        self._add_effect(Compare(body.offset, ours))

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
                f"the block begins at offset {body.offset}, and this replica reported "
                f"offset {self._position}"
            )

    def _apply_confirm(self) -> None:
        # Bytes under comparison may differ from the master's.
        if self._last_data is None or self._comparison is not None:
            return
        target = next_confirm_offset(self._log, self._last_data.confirm_offset)
        if target is not None:
            self._add_effect(Confirm(target))

    # -- results of effects ------------------------------------------------

    def _completed(self, effect: SlaveEffect, now_ms: int) -> None:
        if isinstance(effect, Promise):
            if not self._is_flowing:
                self._cut(now_ms)
        elif isinstance(effect, Cut | Wipe) and self._is_cut_short:
            self._adopt_or_reconnect()
        elif isinstance(effect, Cut | Wipe):
            self._move(LinkEvent.LOG_CUT)
            self._begin(now_ms)
        elif isinstance(effect, Compare):
            self._matched(effect)
        elif isinstance(effect, Adopt) and self._is_cut_short:
            self._close_to_reconnect()
        elif isinstance(effect, Adopt):
            self._append_rest()
        elif isinstance(effect, Append):
            self._move(LinkEvent.LOG_APPENDED)
            if self._log.is_filling and not self._is_learner:
                self._close(
                    "this log begins above 0, and its master tells no queue offsets: "
                    "connecting again as a learner",
                    Retry.SOON,
                )
                return
            self._apply_confirm()

    def _effect_failed(
        self, effect: SlaveEffect, reason: str, status: AckStatus, now_ms: int
    ) -> None:
        del now_ms  # the protocol has no status: nothing is sent
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
            self._add_effect(Adopt(table))

    def _append_rest(self) -> None:
        rest, self._rest = self._rest, None
        if not rest:
            self._apply_confirm()
            return
        offset = self._log.end_offset
        epoch = self._block_epochs.epochs.find(offset)
        if epoch is None:
            raise RemoteViolation(f"the block at offset {offset} belongs to no epoch")
        self._add_effect(Append(offset, rest, new_epoch_at(self._log, offset, epoch)))

    def differs(self, effect: Compare, offset: int, log: SlaveLog, now_ms: int) -> None:
        """
        The slave's bytes differ from the master's: cuts them, and connects again.
        """
        del effect, now_ms  # only the end of the equal bytes is needed
        self._known = log
        if not self._is_open:
            return
        ours = epochs_of_log(log).last_epoch
        if offset < log.confirm_offset and self._history.epoch <= ours:
            # No election after that epoch could have decided otherwise (B4).
            self._close(
                f"the bytes from offset {offset} on differ from the master's, and they "
                f"were confirmed up to offset {log.confirm_offset} in epoch {ours}: "
                "compare the replicas",
                Retry.OPERATOR,
            )
            return
        self._is_cut_short = True
        self._add_effect(Cut(offset))

    def _adopt_or_reconnect(self) -> None:
        table = self._adopted(self._log.end_offset)
        if table == self._log.epochs:
            self._close_to_reconnect()
        else:
            self._add_effect(Adopt(table))

    def _adopted(self, end: int) -> EpochTable:
        ours = self._log.epochs
        if not set(ours.entries) & set(self._block_epochs.epochs.entries):
            return ours  # the cut removed the common entry: the next handshake decides
        return adopted_epochs(ours, self._block_epochs.epochs, end)

    def _close_to_reconnect(self) -> None:
        self._close(
            f"the bytes from offset {self._log.end_offset} on differed from the "
            "master's and were cut: connecting again",
            Retry.SOON,
        )

    # -- reports -----------------------------------------------------------

    @property
    def _position(self) -> int:
        """
        The end of the bytes that are on this log and equal to the master's.
        """
        if self._comparison is not None:
            return self._comparison.position
        return 0 if self._log.is_empty else self._log.received_offset

    def drained(self, now_ms: int) -> None:
        """
        All received frames were processed: reports if the position changed.
        """
        if self._is_flowing and self._position != self._reported:
            self._ack(now_ms)

    def suspend(self, now_ms: int) -> None:
        """
        Closes the link: the legacy protocol cannot suspend a session.
        """
        del now_ms  # nothing is sent
        if self._is_open:
            self._close(
                "suspended: the legacy protocol cannot suspend a session", Retry.NEVER
            )

    def resume(self, now_ms: int) -> None:
        """
        No effect: a suspended link is closed, and its owner connects again.
        """

    def _ack(self, now_ms: int) -> None:
        self._reported = self._position
        self._send(encode_legacy(LegacyAck(self._reported)), now_ms)

    def _send_last_ack(self, now_ms: int) -> None:
        self._ack(now_ms)
