"""
A slave of a Java master in TRANSFER: labels, reports, ends.
"""

from __future__ import annotations

import random

import pytest
from lib.ha.scripted_legacy_master import BYTES, EPOCHS, TERMS, Master, data, history
from lib.ha.slave_owner import ShortLog
from lib.values import replace

from pystore.ha.slave.effects import Retry
from pystore.ha.wire.effects import Promise
from pystore.ha.wire.legacy import (
    LegacyData,
    LegacyEpochs,
    LegacyFrame,
    encode_legacy,
)


class TestTransfer:
    """Bytes come, reports go."""

    def test_the_last_chunk_of_an_epoch_does_not_begin_the_next(self) -> None:
        """
        RMQ-R191: its label is the next epoch's; each entry comes with its first byte.
        """
        master = Master()
        master.say(EPOCHS, data(0), data(8))
        assert [(1, 0)] == master.log.epochs.pairs()
        master.say(data(16))

        assert [(1, 0), (3, 16)] == master.log.epochs.pairs()
        assert [0, 8, 16, 24] == master.reports()
        assert BYTES == bytes(master.log.data)
        assert master.log.confirm == 24

    def test_an_epoch_in_one_chunk_is_not_lost(self) -> None:
        """
        It never appears on the wire: the table of the handshake knows it.
        """
        master = Master()
        master.say(
            LegacyEpochs(24, 3, ((1, 0), (2, 8), (3, 16))),
            data(0, label=(2, 8)),
            data(8, label=(3, 16)),
            data(16),
        )

        assert [(1, 0), (2, 8), (3, 16)] == master.log.epochs.pairs()

    def test_a_new_label_is_a_new_epoch(self) -> None:
        """
        Newer Java masters tell them on an open link; promised before its bytes.
        """
        master = Master()
        master.say(EPOCHS, data(0, 16, (3, 16)), data(16, label=(4, 24)))
        master.say(LegacyData(24, 4, 24, 24, b"fourfour"))

        assert [(1, 0), (3, 16), (4, 24)] == master.log.epochs.pairs()
        assert [Promise(3), Promise(4)] == master.effects(Promise)

    def test_a_label_beyond_the_controllers_epoch_ends_the_link(self) -> None:
        """
        We are stale, and say nothing more.
        """
        master = Master(config=replace(TERMS, epoch=3))
        master.say(EPOCHS, data(0, 16), data(16, label=(4, 24)))

        assert master.closed.retry is Retry.ASK_CONTROLLER
        assert BYTES[:16] == bytes(master.log.data)

    @pytest.mark.parametrize(
        "wrong",
        [
            data(8),
            replace(data(0), offset=-1),
            LegacyData(8, 1, 0, 0),
            data(0, label=(3, 4)),
            data(0, label=(1, 4)),
            data(0, label=(-1, 0)),
            data(0, label=(3, 24)),
            EPOCHS,
            replace(data(0), offset=4),
        ],
        ids=range(9),
    )
    def test_a_frame_that_cannot_follow_ends_the_link(self, wrong: LegacyFrame) -> None:
        """
        A gap, an impossible label, a second answer (RMQ-R177).
        """
        base = 16
        log = ShortLog(b"basebasebasebase", history((0, 0)))
        master = Master(log)
        master.say(LegacyEpochs(40, 3, ((0, 0), (1, base), (3, base + 16))))
        if isinstance(wrong, LegacyData):
            wrong = replace(
                wrong,
                offset=wrong.offset + base,
                epoch_start=wrong.epoch_start + base,
            )
        before = master.reports()
        master.say(wrong)

        assert master.closed.retry is Retry.SOON
        assert b"basebasebasebase" == bytes(log.data)
        assert before == master.reports()

    def test_a_negative_size_ends_the_link(self) -> None:
        """
        RMQ-R188: a Java master without an epoch for the offset sends raw bytes.
        """
        master = Master()
        master.say(EPOCHS)
        frame = bytearray(encode_legacy(data(0)))
        frame[4:8] = (-500).to_bytes(4, "big", signed=True)
        master.owner.feed(bytes(frame))

        assert master.closed.retry is Retry.SOON
        assert b"" == bytes(master.log.data)

    def test_an_empty_master_says_minus_one(self) -> None:
        """
        Its first bytes may come later, anywhere on a segment.
        """
        master = Master()
        master.say(LegacyEpochs(0, 1, ((1, 0),)), LegacyData(-1, 1, 0, 0))
        master.say(LegacyData(2048, 1, 0, 0), LegacyData(2048, 1, 0, 9, b"12345678"))

        assert [0, 2056] == master.reports()
        assert 2048 == master.log.view().min_offset
        assert [(1, 0)] == master.log.epochs.pairs()

    def test_an_empty_table_learns_from_labels(self) -> None:
        """
        A master that has no epoch yet.
        """
        master = Master()
        master.say(LegacyEpochs(0, -1, ()), data(0))

        assert [(1, 0)] == master.log.epochs.pairs()

    def test_a_report_is_repeated_as_a_heartbeat(self) -> None:
        """
        RMQ-R176, RMQ-R179.
        """
        master = Master()
        master.say(EPOCHS, data(0))
        master.owner.pass_time(15_000)
        assert [0, 8, 8, 8, 8] == master.reports()
        master.owner.pass_time(5_000)

        assert master.closed.retry is Retry.SOON

    def test_a_full_disk_ends_the_link_for_now(self) -> None:
        """
        The protocol has no word for it; what was held is all that was reported.
        """
        log = ShortLog()
        log.room = 8
        master = Master(log)
        master.say(EPOCHS, data(0), data(8))

        assert master.closed.retry is Retry.SOON
        assert "no space" in master.closed.reason
        assert [0, 8] == master.reports()

    def test_suspending_closes(self) -> None:
        """
        A Java master cannot be told to wait.
        """
        master = Master()
        master.say(EPOCHS)
        master.owner.connection.suspend(master.owner.now_ms)
        master.owner.settle()
        assert master.closed.retry is Retry.NEVER
        master.owner.connection.resume(master.owner.now_ms)

        assert [] == master.owner.connection.effects()
        assert Master(config=replace(TERMS, is_suspended=True)).closed.retry is (
            Retry.NEVER
        )

    def test_a_shutdown_reports_once_more(self) -> None:
        """
        Then the link ends for good.
        """
        master = Master()
        master.say(EPOCHS, data(0))
        master.owner.connection.shutdown(master.owner.now_ms)
        master.owner.settle()

        assert [0, 8, 8] == master.reports()
        assert master.closed.retry is Retry.NEVER

    def test_garbage_ends_the_link_in_every_state(self) -> None:
        """
        Heads with a flipped bit; the lowest byte of a size cannot be checked.
        """
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        chance = random.Random(seed)
        for turn in range(300):
            master = Master()
            master.say(*(EPOCHS, data(0))[: turn % 3])
            frame = bytearray(encode_legacy((EPOCHS, data(0), data(8))[turn % 3]))
            frame[chance.randrange(7)] ^= 1 << chance.randrange(8)
            master.owner.feed(bytes(frame), bytes(frame))
            master.owner.pass_time(60_000)

            assert master.owner.closed is not None
            assert BYTES.startswith(bytes(master.log.data))
