"""
The master's end of a legacy connection, for a Java slave. Pure.

It behaves as RocketMQ's master, without its bugs. A frame's label is the epoch of its
first byte, and before a change of the epoch a frame without a block is sent (RMQ-R191).
A start that no epoch covers, or that the log does not hold, ends the link (RMQ-R100,
RMQ-R188). So does an ack of bytes that were never sent (RMQ-R130).

A Java slave learns epochs from labels and from the answer to its handshake. It never
removes an entry, so no frame names an epoch that has no byte yet. When the master's
epoch changes, the slave is disconnected so that it reads the table again.

Source: docs/protocol.md (formats 6.3 to 6.6), docs/replication.md.
"""

from __future__ import annotations

from collections.abc import Callable

from pystore.epochs.table import NO_EPOCH, EpochEntry, EpochTable
from pystore.errors import RemoteViolation
from pystore.ha.insync.facts import SessionAcked, SessionOpened
from pystore.ha.master.config import MasterConfig, SetView
from pystore.ha.master.effects import MasterLog, SendBlock
from pystore.ha.master.handshake import refusal_of_id
from pystore.ha.master.proofs import SlaveProofs
from pystore.ha.master.protocol import AcceptedLink
from pystore.ha.master.resume_point import last_segment_start, resync_text
from pystore.ha.wire.blocks import BlockRange
from pystore.ha.wire.codes import LEGACY_EPOCH_MAX, AckStatus, State
from pystore.ha.wire.effects import Send
from pystore.ha.wire.legacy import (
    LEGACY_EPOCHS_MAX,
    LegacyAck,
    LegacyData,
    LegacyHandshake,
    decode_from_slave,
    encode_legacy,
    encode_legacy_head,
    epochs_in_legacy,
)
from pystore.ha.wire.link_state import MASTER, LinkEvent, next_state

__all__ = ["LegacyMasterProtocol", "epochs_for_handshake"]

_NO_OFFSET = -1
"""The label of a heartbeat while the master has no byte."""

_NO_LABEL = (NO_EPOCH, 0)
"""
The label of such a heartbeat. A Java slave would keep an epoch without a byte that is
named here. If the next epoch began at the same offset (RMQ-R137), the slave would never
find a consistent point again.
"""

_ADDRESS_BYTES_MAX = 50
"""Before 5.1.1 the length of the slave's address stood where the id now begins."""


class LegacyMasterProtocol(AcceptedLink):
    """
    One link to a slave that speaks RocketMQ's protocol. One thread.

    Args:
        config: of the mastership.
        set_view: returns the set as it is known now.
        session_id: random, not 0; no frame carries it.
        now_ms: when the link was accepted.
        proofs: of the slave, which can give none: whether it may lack them.
    """

    def __init__(
        self,
        config: MasterConfig,
        set_view: Callable[[], SetView],
        session_id: int,
        now_ms: int,
        proofs: SlaveProofs | None = None,
    ) -> None:
        super().__init__(config, set_view, session_id, now_ms, proofs)
        self._slave: LegacyHandshake | None = None
        self._named: EpochEntry | None = None

    @property
    def _block_bytes_max(self) -> int:
        return self.config.legacy_block_bytes_max

    @property
    def _patience_ms(self) -> int:
        # A Java slave without news sends only its next heartbeat, by default 5 s after
        # its handshake (formats 6.5).
        has_shaken = self._slave is not None
        return self.config.housekeeping_ms if has_shaken else super()._patience_ms

    @property
    def _handshake_ms(self) -> int:
        return self._accepted_ms + self.config.housekeeping_ms

    def _take(self, data: memoryview, log: MasterLog, now_ms: int) -> int:
        taken = decode_from_slave(data)
        if taken is None:
            return 0
        frame, size = taken
        if isinstance(frame, LegacyHandshake):
            self._take_handshake(frame, log)
        elif self._slave is None:
            raise RemoteViolation("an ack before a handshake")
        elif self._state is State.HANDSHAKE:
            self._begin(self._slave, frame, log, now_ms)
        else:
            self._state = next_state(MASTER, self._state, LinkEvent.RECEIVED_ACK)
            self._take_ack(self._slave, frame)
        return size

    def _take_handshake(self, shake: LegacyHandshake, log: MasterLog) -> None:
        self._state = next_state(MASTER, self._state, LinkEvent.RECEIVED_HANDSHAKE)
        self._check_slave(shake)
        self._slave = shake
        answer = epochs_in_legacy(epochs_for_handshake(log), log.end_offset)
        self._effects.append(Send(encode_legacy(answer)))

    def _check_slave(self, shake: LegacyHandshake) -> None:
        """
        Raises:
            RemoteViolation: this slave cannot be served; the protocol cannot carry the
                reason.
        """
        if self.config.epoch > LEGACY_EPOCH_MAX:
            raise RemoteViolation(
                f"epoch {self.config.epoch}: "
                f"legacy frames have epochs up to {LEGACY_EPOCH_MAX}"
            )
        if self._slave is not None and self._slave != shake:
            raise RemoteViolation(f"{shake} after {self._slave} on this link")
        set_view = self._set_view()
        if not set_view.is_master:
            raise RemoteViolation(f"broker {self.config.broker_id} is not the master")
        reason = refusal_of_id(shake.broker_id, self.config, set_view)
        if reason is not None:
            if 0 < shake.broker_id >> 32 <= _ADDRESS_BYTES_MAX:
                reason += "; a slave older than RocketMQ 5.1.1 sends its address there"
            raise RemoteViolation(reason)
        if set_view.is_busy:
            raise RemoteViolation("this master takes no more sessions now")

    def _begin(
        self, slave: LegacyHandshake, ack: LegacyAck, log: MasterLog, now_ms: int
    ) -> None:
        start = ack.offset
        if start:
            if start > log.end_offset:
                raise RemoteViolation(
                    f"the slave reports offset {start}, the master's log ends at "
                    f"offset {log.end_offset}"
                )
            if start < log.min_offset:
                raise RemoteViolation(
                    resync_text(f"the slave reports offset {start}", log)
                )
            if log.epochs.find(start) is None:
                raise RemoteViolation(f"no epoch covers offset {start}")
        self._state = next_state(MASTER, self._state, LinkEvent.RECEIVED_FIRST_ACK)
        self._offset = start or self._first_offset(log)
        opened = SessionOpened(
            broker_id=slave.broker_id,
            incarnation=None,
            session_id=self.session_id,
            offset=start or None,
            # One that begins with the last segment lacks records, and no controller
            # hears of it (B11).
            is_learner=slave.is_learner or slave.is_from_last_file,
            is_legacy=True,
        )
        self._open(opened, now_ms)
        self._take_ack(slave, ack)

    def _first_offset(self, log: MasterLog) -> int | None:
        """
        Returns where an empty slave begins; ``None`` while the master has no byte.
        """
        if log.end_offset == log.min_offset:
            return None
        is_last_file = self._slave is not None and self._slave.is_from_last_file
        return last_segment_start(log) if is_last_file else log.min_offset

    def _take_ack(self, slave: LegacyHandshake, ack: LegacyAck) -> None:
        self._check_ack(ack.offset)
        self._effects.append(
            SessionAcked(
                broker_id=slave.broker_id,
                session_id=self.session_id,
                received_offset=ack.offset,
                flushed_offset=None,
                caught_up_ms=self._times.held(ack.offset),
                status=AckStatus.OK,
            )
        )

    def _block(self, block: BlockRange, log: MasterLog, now_ms: int) -> SendBlock:
        label = block.epoch, block.epoch_start
        entry = EpochEntry(*label)
        if self._named != entry:
            self._named = entry
            return self._frame(block.offset, label, log, now_ms)
        self._offset = block.end_offset
        return self._frame(block.offset, label, log, now_ms, block.size)

    def _heartbeat(self, log: MasterLog, now_ms: int) -> None:
        if self._offset is None:
            self._offset = self._first_offset(log)
        if self._offset is None:
            block = self._frame(_NO_OFFSET, _NO_LABEL, log, now_ms)
        elif not self._is_servable(self._offset, log, now_ms):
            return
        else:
            self._named = _label(self._offset, log)
            named = self._named.epoch, self._named.start_offset
            block = self._frame(self._offset, named, log, now_ms)
        self._effects.append(block)

    def _frame(
        self,
        offset: int,
        label: tuple[int, int],
        log: MasterLog,
        now_ms: int,
        block_bytes: int = 0,
    ) -> SendBlock:
        self._sent(log, now_ms)
        data = LegacyData(offset, *label, log.confirm_offset)
        head = encode_legacy_head(data, block_bytes)
        return SendBlock(head, offset, block_bytes, log.end_offset)


def _label(offset: int, log: MasterLog) -> EpochEntry:
    """
    Returns the epoch of the byte at *offset*; at the end of the log, of the byte
    before: an epoch without bytes is not named yet.
    """
    covering = log.epochs.find(offset)
    if offset == log.end_offset and offset > log.min_offset:
        covering = log.epochs.find(offset - 1) or covering
    assert covering is not None  # _is_servable checked
    return covering


def epochs_for_handshake(log: MasterLog) -> EpochTable:
    """
    Returns the epochs for the answer to a handshake: all of them. If a Java slave
    cannot read so many (RMQ-R198), those of the bytes that the log still holds, and of
    these the newest that fit. A missing entry only removes a possible consistent point;
    it never makes a wrong one.
    """
    epochs = log.epochs
    if len(epochs) > LEGACY_EPOCHS_MAX:
        epochs = epochs.cut_prefix(log.min_offset)
    return EpochTable(epochs.entries[-LEGACY_EPOCHS_MAX:])
