"""
A v3 slave in TRANSFER, against a master that says what the test wants.
"""

from __future__ import annotations

import zlib

import pytest
from lib.ha.scripted_v3_master import (
    BYTES,
    DATA,
    EPOCHS,
    SESSION,
    SHAKE,
    Master,
    data,
    flowing,
    history,
)
from lib.ha.slave_owner import ShortLog
from lib.values import replace

from pystore.core.frame_step import FAR_BEHIND_BYTES
from pystore.ha.slave.acks import DELAYED_ACK_BYTES
from pystore.ha.slave.effects import (
    Append,
    Confirm,
    Retry,
)
from pystore.ha.wire.codes import (
    AckStatus,
    CheckResult,
    DataFlag,
    MasterFlag,
    QueuesFlag,
    State,
)
from pystore.ha.wire.frames import (
    Frame,
    ReturnQueues,
    TransferAck,
    TransferData,
)
from pystore.ha.wire.runs import SHORT_BYTES
from pystore.ha.wire.v3 import encode


class TestTransfer:
    """Bytes come, acks go."""

    def test_an_epoch_is_recorded_with_its_first_byte(self) -> None:
        """
        RMQ-K.3: never before it, whatever heartbeats say.
        """
        master = flowing()
        assert [] == master.log.epochs.pairs()
        master.say(data(0, 16), data(16))

        appends = [e for e in master.owner.done if isinstance(e, Append)]
        assert [1, 3] == [e.entry.epoch for e in appends if e.entry]
        assert [(1, 0), (3, 16)] == master.log.epochs.pairs()
        assert BYTES == bytes(master.log.data)

    def test_frames_that_come_together_are_acked_once(self) -> None:
        """
        Acks are cumulative, and from the log.
        """
        master = flowing()
        before = len(master.owner.sent)
        master.say_at_once(data(0), data(8), data(16, 5))

        assert len(master.owner.sent) == before + 1
        ack = master.last()
        assert isinstance(ack, TransferAck)
        assert (21, 0, 24, 77) == (
            ack.received_offset,
            ack.confirm_offset,
            ack.echo_end_offset,
            ack.echo_ms,
        )

    def test_an_ack_that_is_wanted_now_does_not_wait(self) -> None:
        """
        Flag 2 of the data.
        """
        master = flowing()
        before = len(master.owner.sent)
        blocks = data(0, flags=DataFlag.ACK_NOW), data(8, confirm_offset=8)
        master.say_at_once(*blocks)

        assert len(master.owner.sent) == before + 2
        assert 8 == master.heard()[-2].body.received_offset  # type: ignore[union-attr]

    def test_the_confirm_offset_moves_behind_the_ack(self) -> None:
        """
        Appends of the master wait for the ack, and none for the confirm offset of a
        slave: the next ack reports it.
        """
        master = flowing()
        master.say(data(0, confirm_offset=8))
        ack = master.last()
        assert isinstance(ack, TransferAck)
        assert (ack.received_offset, ack.confirm_offset, master.log.confirm) == (
            8,
            0,
            8,
        )
        master.say(data(8, confirm_offset=8))

        assert master.last().confirm_offset == 8

    def test_a_request_to_flush_is_followed(self) -> None:
        """
        Until its bytes are durable; not for blocks without a waiting append.
        """
        master = flowing()
        connection = master.owner.connection
        master.say(data(0, 8))
        wants = [connection.wants_flush]
        master.say(data(8, 8, flags=DataFlag.ACK_NOW))
        wants.append(connection.wants_flush)
        master.log.flushed = 16
        connection.flushed(master.log.view(), 0)

        assert [*wants, connection.wants_flush] == [False, True, False]

    def test_far_behind_one_ack_stands_for_many_blocks(self) -> None:
        """
        The next one comes with its share of bytes, or with the heartbeat; the confirm
        offset goes with it.
        """
        master = flowing()
        before = len(master.owner.sent)
        far = FAR_BEHIND_BYTES + DELAYED_ACK_BYTES + 24
        master.say(data(0, end_offset=far, confirm_offset=far), data(8, end_offset=far))
        assert len(master.owner.sent) == before
        assert master.log.confirm == 0
        half = DELAYED_ACK_BYTES // 2
        for offset in (16, 16 + half):
            block = replace(DATA, offset=offset, end_offset=far, block=bytes(half))
            master.say(replace(block, confirm_offset=far))

        assert len(master.owner.sent) == before + 1
        ack = master.last()
        assert isinstance(ack, TransferAck)
        assert ack.received_offset == master.log.confirm == DELAYED_ACK_BYTES + 16

    def test_long_blocks_that_come_together_are_one_append(self) -> None:
        """
        Under the entry of the first, without a copy, and with one ack of all.
        """
        master = flowing()
        master.say(data(0, 16))
        before = len(master.owner.sent)
        blocks = [bytes([number]) * SHORT_BYTES for number in range(3)]
        end, offset, frames = 16 + 3 * SHORT_BYTES, 16, []
        for block in blocks:
            frames.append(replace(DATA, offset=offset, end_offset=end, block=block))
            offset += SHORT_BYTES
        master.say_at_once(*frames)

        append = [e for e in master.owner.done if isinstance(e, Append)][-1]
        assert (16, 2, 3 * SHORT_BYTES) == (
            append.offset,
            len(append.more),
            append.size,
        )
        assert append.entry is not None
        assert b"".join(blocks) == bytes(master.log.data[16:])
        assert len(master.owner.sent) == before + 1
        assert end == master.last().received_offset

    def test_far_behind_the_heartbeat_acks_what_came(self) -> None:
        """
        The link may stall before the next ack is due.
        """
        master = flowing()
        master.say(data(0, end_offset=2 * FAR_BEHIND_BYTES))
        before = len(master.owner.sent)
        master.owner.pass_time(SHAKE.heartbeat_ms)

        assert len(master.owner.sent) == before + 1
        ack = master.last()
        assert isinstance(ack, TransferAck)
        assert ack.received_offset == 8

    def test_the_confirm_offset_is_ours_at_most_and_never_goes_back(self) -> None:
        """
        RMQ-R131: min(told, own end of whole records).
        """
        master = flowing()
        master.say(data(0, 12, confirm_offset=16))
        assert master.log.confirm == 8
        master.say(data(12, 4, confirm_offset=4))
        assert master.log.confirm == 8
        master.say(replace(DATA, offset=16, confirm_offset=24))

        assert master.log.confirm == 16
        confirms = [e for e in master.owner.done if isinstance(e, Confirm)]
        assert [Confirm(8), Confirm(16)] == confirms

    def test_durable_bytes_are_reported(self) -> None:
        """
        B9: all-synced waits for it; the same again is no news.
        """
        master = flowing()
        master.say(data(0))
        master.log.flushed = 8
        before = len(master.owner.sent)
        for _ in range(2):
            master.owner.connection.flushed(master.log.view(), master.owner.now_ms)
            master.owner.settle()

        assert len(master.owner.sent) == before + 1
        assert master.last().flushed_offset == 8

    def test_poison_is_told_and_the_link_stays(self) -> None:
        """
        A12: status 5 with the last good synced end.
        """
        master = flowing()
        master.say(data(0))
        master.log.is_poisoned = True
        master.owner.connection.flushed(master.log.view(), master.owner.now_ms)
        master.owner.settle()
        assert AckStatus.POISONED is master.last().status
        master.say(data(8))

        assert AckStatus.POISONED is master.last().status
        assert (16, 0) == (master.last().received_offset, master.last().flushed_offset)

    def test_a_full_disk_is_told_and_tried_again(self) -> None:
        """
        Status 2, then a new link: space may come back by itself.
        """
        log = ShortLog()
        log.room = 8
        master = flowing(log)
        master.say(data(0), data(8))

        assert AckStatus.DISK_FULL is master.last().status
        assert master.last().received_offset == 8
        assert master.closed.retry is Retry.SOON

    def test_a_block_with_another_checksum_is_not_appended(self) -> None:
        """
        Status 3; the same link would bring the same bytes.
        """
        master = Master()
        master.say(replace(SHAKE, flags=MasterFlag.BLOCK_CRC), EPOCHS)
        good = data(0)
        master.say(replace(good, crc=zlib.crc32(good.block)))
        assert BYTES[:8] == bytes(master.log.data)
        master.say(data(8, crc=1))

        assert AckStatus.BAD_CRC is master.last().status
        assert BYTES[:8] == bytes(master.log.data)
        assert master.closed.retry is Retry.SOON

    @pytest.mark.parametrize(
        "wrong",
        [
            data(8),
            replace(DATA, offset=8),
            data(0, epoch=4, epoch_start=0),
            data(0, epoch=-1),
            data(0, epoch_start=8),
            data(0, flags=DataFlag.SUSPENDED),
            data(0, end_offset=7),
            data(0, epoch_start=-8),
        ],
        ids=range(8),
    )
    def test_a_block_that_cannot_follow_ends_the_link(
        self, wrong: TransferData
    ) -> None:
        """
        Elsewhere, of a later or another epoch, or while we are suspended.
        """
        log = ShortLog(BYTES[:16], history((1, 0)))
        master = flowing(log)
        shifted = replace(wrong, offset=wrong.offset + 16)
        if shifted.offset == 16 and shifted.epoch_start == 0 and shifted.epoch == 1:
            shifted = replace(shifted, epoch=3, epoch_start=16)
        master.say(shifted)

        assert master.closed.retry is Retry.SOON
        assert BYTES[:16] == bytes(log.data)
        assert [(1, 0)] == log.epochs.pairs()

    def test_an_epoch_whose_first_byte_is_missing_is_not_recorded(self) -> None:
        """
        RMQ-R191: the entry would label bytes of another epoch.
        """
        log = ShortLog(BYTES[:8], history((1, 0)))
        master = flowing(log)
        master.say(data(8, epoch=3, epoch_start=4))

        assert AckStatus.GAP is master.last().status
        assert [(1, 0)] == log.epochs.pairs()

    @pytest.mark.parametrize("epoch", [2, 4])
    def test_a_frame_of_another_epoch_changes_nothing(self, epoch: int) -> None:
        """
        RMQ-R273: no byte, no ack; the controller knows which side is stale.
        """
        master = flowing()
        before = len(master.owner.sent)
        master.say(data(0), epoch=epoch)

        assert master.closed.retry is Retry.ASK_CONTROLLER
        assert (0, before) == (len(master.log.data), len(master.owner.sent))

    def test_a_frame_of_another_session_changes_nothing(self) -> None:
        """
        RMQ-R273: it belongs to another session.
        """
        master = flowing()
        before = len(master.owner.sent)
        master.say(data(0, session_id=1))

        assert master.closed.retry is Retry.SOON
        assert (0, before) == (len(master.log.data), len(master.owner.sent))

    @pytest.mark.parametrize("is_suspended", [False, True])
    def test_a_refusal_may_come_at_any_time(self, is_suspended: bool) -> None:
        """
        The master says why before it closes: segments that we need were deleted.
        """
        master = flowing()
        if is_suspended:
            master.say(replace(data(0, 0), flags=DataFlag.SUSPENDED))
        reason = "resync needed: the slave resumes at offset 8"
        master.say(replace(SHAKE, result=CheckResult.REJECTED, reason=reason))

        assert State.READY is master.state
        assert Retry.SOON is master.closed.retry
        assert (
            f"REJECTED: the master rejects this replica ({reason})"
            == master.closed.reason
        )

    def test_an_empty_log_begins_where_the_master_says(self) -> None:
        """
        At its minimum, with the epoch that covers it.
        """
        master = Master()
        queues = ReturnQueues(SESSION, 2048, 2048, 0, 0, QueuesFlag(0), ())
        table = ((1, 0, 16), (3, 16, 4096))
        epochs = replace(EPOCHS, min_offset=2048, end_offset=4096, entries=table)
        master.say(SHAKE, epochs, queues)
        block = replace(DATA, offset=2048, end_offset=4096, block=b"12345678")
        master.say(replace(block, epoch=3, epoch_start=16))

        assert (2048, 2056) == (
            master.log.view().min_offset,
            master.log.view().end_offset,
        )
        assert [(3, 16)] == master.log.epochs.pairs()

    def test_an_empty_log_begins_above_0_only_with_its_queue_offsets(self) -> None:
        """
        A20: a block elsewhere than at the begin is not taken.
        """
        master = Master()
        block = replace(DATA, offset=2048, end_offset=4096, block=b"12345678")
        master.say(SHAKE, EPOCHS, replace(block, epoch=3, epoch_start=16))
        assert "the block begins at offset 2048" in master.closed.reason

    def test_an_empty_log_begins_with_a_segment(self) -> None:
        """
        Anything else would leave a hole below it.
        """
        master = Master()
        master.say(SHAKE, EPOCHS, replace(DATA, offset=8, end_offset=24))

        assert master.closed.retry is Retry.SOON

    def test_something_is_said_every_heartbeat(self) -> None:
        """
        RMQ-K.3.8, and silence of the peer ends the link.
        """
        master = flowing()
        before = len(master.owner.sent)
        master.owner.pass_time(15_000)
        assert len(master.owner.sent) == before + 3
        assert isinstance(master.last(), TransferAck)
        master.owner.pass_time(5_000)

        assert master.closed.retry is Retry.SOON
        assert "the master sent nothing" in master.closed.reason

    def test_pieces_of_a_long_frame_are_a_word(self) -> None:
        """
        A slow line is not a dead master.
        """
        master = flowing()
        frame = encode(Frame(3, 77, data(0)))
        for place in range(0, len(frame), 40):
            master.owner.pass_time(15_000)
            master.owner.feed(frame[place : place + 40])

        assert master.owner.closed is None
        assert BYTES[:8] == bytes(master.log.data)
