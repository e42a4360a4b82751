"""
The handshake of a slave with a Java master, which has no session and few words.
"""

from __future__ import annotations

import pytest
from lib.ha.scripted_legacy_master import BYTES, EPOCHS, TERMS, Master, data, history
from lib.ha.slave_owner import ShortLog
from lib.values import replace

from pystore.ha.slave.effects import Retry, Wipe
from pystore.ha.wire.codes import State
from pystore.ha.wire.effects import Promise
from pystore.ha.wire.legacy import (
    LegacyEpochs,
    LegacyFrame,
    LegacyHandshake,
    decode_handshake,
)


class TestHandshake:
    """One question, one answer, one report."""

    def test_the_handshake_is_one_write(self) -> None:
        """
        RMQ-R197: a Java master reads half of one wrongly.
        """
        master = Master(config=replace(TERMS, is_learner=True, is_from_last_file=True))

        (sent,) = master.owner.sent
        assert (
            LegacyHandshake(2, is_from_last_file=True, is_learner=True),
            16,
        ) == decode_handshake(memoryview(sent))

    def test_a_log_with_bytes_does_not_want_the_last_file(self) -> None:
        """
        The flag goes with a report of 0, which may be a point to compare from.
        """
        log = ShortLog(BYTES[:8], history((1, 0)))
        master = Master(log, replace(TERMS, is_from_last_file=True))

        shake = decode_handshake(memoryview(master.owner.sent[0]))
        assert shake is not None
        assert not shake[0].is_from_last_file

    def test_the_report_follows_the_answer_at_once(self) -> None:
        """
        RMQ-R173: also 0, also where it stood before.
        """
        for log in (ShortLog(), ShortLog(BYTES[:16], history((1, 0)))):
            master = Master(log)
            master.say(EPOCHS)

            assert [len(log.data)] == master.reports()
            assert State.TRANSFER is master.owner.connection.state

    def test_the_epoch_is_promised_before_the_cut(self) -> None:
        """
        B6, A3: both before the report.
        """
        master = Master(ShortLog(BYTES[:16] + b"diverged", history((1, 0), (2, 16))))
        master.say(EPOCHS)

        kinds = [type(effect).__name__ for effect in master.owner.done]
        assert ["Send", "Promise", "Cut", "Send"] == kinds
        assert [16] == master.reports()

    def test_a_half_record_is_cut_before_the_report(self) -> None:
        """
        RMQ-R181: the report is the log's end.
        """
        master = Master(ShortLog(BYTES[:13], history((1, 0), (3, 16))))
        master.say(EPOCHS)

        assert [8] == master.reports()
        assert [(1, 0)] == master.log.epochs.pairs()

    def test_a_cut_inside_a_record_ends_the_link(self) -> None:
        """
        RMQ-R149: an operator must act.
        """
        master = Master(ShortLog(BYTES[:16], history((1, 0))))
        master.say(LegacyEpochs(24, 3, ((1, 0), (3, 12))))

        assert master.closed.retry is Retry.OPERATOR
        assert [] == master.reports()
        assert BYTES[:16] == bytes(master.log.data)

    def test_a_master_behind_the_promise_is_not_followed(self) -> None:
        """
        B6: nothing else protects a legacy link from an old master (RMQ-R164).
        """
        log = ShortLog()
        log.promised = 4
        master = Master(log)
        master.say(EPOCHS)

        assert master.closed.retry is Retry.ASK_CONTROLLER

    def test_a_master_may_lack_an_empty_epoch_of_the_controller(self) -> None:
        """
        RMQ-R137: Java does not record it; the promise is the controller's epoch.
        """
        master = Master(config=replace(TERMS, epoch=5))
        master.say(EPOCHS)

        assert [Promise(5)] == master.effects(Promise)
        assert [0] == master.reports()

    def test_a_master_ahead_of_the_controllers_word_is_not_followed(self) -> None:
        """
        Our knowledge is stale.
        """
        master = Master(config=replace(TERMS, epoch=2))
        master.say(EPOCHS)

        assert master.closed.retry is Retry.ASK_CONTROLLER

    @pytest.mark.parametrize(
        "wrong",
        [
            LegacyEpochs(24, 2, ((1, 0), (3, 16))),
            LegacyEpochs(24, 1, ((3, 0), (1, 16))),
            LegacyEpochs(24, 3, ((1, 16), (3, 0))),
            LegacyEpochs(-1, 3, ((1, 0), (3, 16))),
            LegacyEpochs(24, 3, ((-1, 0), (3, 16))),
            data(0),
        ],
        ids=range(6),
    )
    def test_an_answer_that_no_master_gives_ends_the_link(
        self, wrong: LegacyFrame
    ) -> None:
        """
        Tables that do not ascend, ends that are none, data instead of an answer.
        """
        master = Master()
        master.say(wrong)

        assert master.closed.retry is Retry.SOON
        assert master.log.promised == -1

    def test_epochs_beyond_31_bits_end_legacy(self) -> None:
        """
        A Java master cannot name them.
        """
        for log, told in ((ShortLog(BYTES, history((2**31, 0))), None), (None, 2**31)):
            master = Master(log, replace(TERMS, epoch=told))

            assert master.closed.retry is Retry.OPERATOR
            assert [] == master.owner.sent

    def test_a_stranger_is_wiped_only_below_the_masters_log(self) -> None:
        """
        RMQ-R150, RMQ-R199: no names are told, so a wipe needs more than a permission.
        """
        wiping = replace(TERMS, may_wipe=lambda: True)
        for config, start, is_wiped in ((TERMS, 24, False), (wiping, 16, False)):
            master = Master(ShortLog(BYTES, history((1, 0))), config)
            master.say(LegacyEpochs(64, 3, ((3, start),)))
            assert is_wiped == bool(master.effects(Wipe))
            assert master.closed.retry is Retry.OPERATOR
            assert BYTES == bytes(master.log.data)
        master = Master(ShortLog(BYTES, history((1, 0))), wiping)
        master.say(LegacyEpochs(64, 3, ((3, 24),)))

        assert [Wipe()] == master.effects(Wipe)
        assert [0] == master.reports()

    def test_the_permission_to_wipe_is_asked_after_the_promise(self) -> None:
        """
        B15: the promise takes as long as a disk, and the set may change meanwhile.
        """
        log = ShortLog(BYTES, history((1, 0)))
        wiping = replace(TERMS, may_wipe=lambda: log.promised < 3)
        master = Master(log, wiping)
        master.say(LegacyEpochs(64, 3, ((3, 24),)))

        assert 3 == log.promised
        assert [] == master.effects(Wipe)
        assert BYTES == bytes(log.data)

    def test_no_answer_ends_the_link(self) -> None:
        """
        RMQ-R171: five seconds.
        """
        master = Master()
        master.owner.pass_time(5_000)

        assert master.closed.retry is Retry.SOON
        assert len(master.owner.sent) == 1
