"""
The handshake of a v3 slave, against a master that says what the test wants.
"""

from __future__ import annotations

from typing import Any

import pytest
from lib.ha.scripted_v3_master import (
    BYTES,
    EPOCHS,
    SESSION,
    SHAKE,
    TERMS,
    Master,
    data,
    flowing,
    history,
)
from lib.ha.slave_owner import ShortLog
from lib.values import replace

from pystore.ha.slave.effects import Begin, Cut, Retry, Wipe
from pystore.ha.slave.protocol_v3 import V3SlaveProtocol
from pystore.ha.wire.codes import (
    CheckResult,
    EpochsFlag,
    QueuesFlag,
    SlaveFlag,
    State,
    TruncateFlag,
    TruncateOutcome,
)
from pystore.ha.wire.effects import Promise, Send
from pystore.ha.wire.frames import (
    ConfirmTruncate,
    Frame,
    HandshakeSlave,
    NextQueueOffset,
    QueryEpoch,
    QueryQueues,
    ReturnQueues,
)
from pystore.ha.wire.v3 import encode


class TestHandshake:
    """One question, one answer, then the next question."""

    def test_the_first_frame_has_identity_and_log_of_the_slave(self) -> None:
        """
        RMQ-K.3, type 1: whole records only; the epoch is the controller's.
        """
        log = ShortLog(BYTES[:20], history((1, 0), (3, 16)))
        master = Master(log, replace(TERMS, is_learner=True))

        (frame,) = master.heard()
        body = frame.body
        assert isinstance(body, HandshakeSlave)
        assert frame.epoch == 3
        assert (3, 3, 2, 7) == (
            body.protocol_min,
            body.protocol_max,
            body.broker_id,
            body.incarnation,
        )
        assert (3, 0, 16, 1 << 10) == (
            body.last_epoch,
            body.min_offset,
            body.end_offset,
            body.segment_size,
        )
        assert ("cluster", "broker") == (body.cluster, body.broker_name)
        assert SlaveFlag.LEARNER | SlaveFlag.BLOCK_CRC == body.flags

    def test_the_epoch_is_promised_before_anything_else_is_said(self) -> None:
        """
        B6: durable before it is acted on.
        """
        master = Master()
        master.say(SHAKE)

        assert [Send, Promise, Send] == [type(e) for e in master.owner.done]
        assert master.log.promised == 3
        assert QueryEpoch(SESSION) == master.last()

    def test_without_a_known_epoch_the_masters_is_taken(self) -> None:
        """
        Without a controller the handshake names the epoch of the session.
        """
        master = Master(config=replace(TERMS, epoch=None))
        master.say(SHAKE, epoch=9)

        assert master.log.promised == 9
        assert master.heard()[-1].epoch == 9

    @pytest.mark.parametrize("told", [None, 3])
    def test_a_master_below_the_promise_is_not_followed(self, told: int | None) -> None:
        """
        B6, also after a restart: the log remembers the promise.
        """
        log = ShortLog()
        log.promised = 4
        master = Master(log, replace(TERMS, epoch=told))
        master.say(SHAKE)

        assert master.closed.retry is Retry.ASK_CONTROLLER
        assert master.log.promised == 4

    @pytest.mark.parametrize("epoch", [2, 4])
    def test_a_master_of_another_epoch_is_not_followed(self, epoch: int) -> None:
        """
        RMQ-K.3.4: one of the two is stale, and the controller knows.
        """
        master = Master()
        master.say(SHAKE, epoch=epoch)

        assert master.closed.retry is Retry.ASK_CONTROLLER
        assert master.log.promised == -1

    def test_pages_of_epochs_are_asked_for_one_by_one(self) -> None:
        """
        RMQ-K.3, type 4: from the next epoch on, until no more follow.
        """
        master = Master()
        more = replace(EPOCHS, flags=EpochsFlag.MORE, entries=((1, 0, 16),))
        master.say(SHAKE, more)
        assert QueryEpoch(SESSION, 2) == master.last()
        master.say(replace(EPOCHS, entries=((3, 16, 24),)))

        assert isinstance(master.last(), ConfirmTruncate)

    def test_an_empty_log_begins_where_the_master_says(self) -> None:
        """
        Outcome 2, after the queue offsets of that begin are durable (A20).
        """
        master = Master(config=replace(TERMS, is_from_last_file=True))
        master.say(SHAKE, EPOCHS)
        assert QueryQueues(SESSION, 0) == master.last()
        entries = (NextQueueOffset("t", 0, 7), NextQueueOffset("t", 1, 9))
        page = ReturnQueues(SESSION, 0, 1024, 2, 0, QueuesFlag.MORE, entries[:1])
        master.say(page)
        assert QueryQueues(SESSION, 1) == master.last()
        master.say(replace(page, first=1, flags=QueuesFlag(0), entries=entries[1:]))

        kinds = [type(effect) for effect in master.owner.done]
        assert [Begin, Send] == kinds[-2:]
        assert entries == master.log.queues
        flags = TruncateFlag.SYNC_FROM_LAST_FILE
        expected = ConfirmTruncate(
            SESSION, -1, -1, 1024, 0, 1024, TruncateOutcome.EMPTY, flags
        )
        assert expected == master.last()
        assert master.state is State.HANDSHAKE

    def test_a_log_that_begins_at_0_needs_no_queue_offsets(self) -> None:
        """
        It gets each number with its records.
        """
        master = Master()
        master.say(SHAKE, replace(EPOCHS, min_offset=0))
        expected = ConfirmTruncate(
            SESSION, -1, -1, 0, 0, 0, TruncateOutcome.EMPTY, TruncateFlag(0)
        )
        assert expected == master.last()

    def test_queue_offsets_that_were_not_asked_for_are_a_violation(self) -> None:
        """
        The slave has asked for epochs.
        """
        master = Master()
        master.say(SHAKE, ReturnQueues(SESSION, 0, 0, 0, 0, QueuesFlag(0), ()))
        assert "waits for a page of epochs" in master.closed.reason

    def test_a_cut_is_reported_once_it_is_durable(self) -> None:
        """
        RMQ-R274: the frame follows the effect, which its owner carries out first.
        """
        log = ShortLog(BYTES[:16] + b"divergedhalf", history((1, 0), (2, 16)))
        master = Master(log)
        master.say(SHAKE, EPOCHS)

        kinds = [type(effect) for effect in master.owner.done]
        assert [Send, Promise, Send, Cut, Send] == kinds
        assert BYTES[:16] == bytes(log.data)
        assert [(1, 0)] == log.epochs.pairs()
        expected = ConfirmTruncate(
            SESSION, 1, 16, 16, 12, 16, TruncateOutcome.CUT, TruncateFlag(0)
        )
        assert expected == master.last()

    def test_nothing_is_sent_while_the_cut_is_under_way(self) -> None:
        """
        RMQ-R274 again, without an owner: no word before `did`.
        """
        log = ShortLog(BYTES[:8] + b"diverged", history((1, 0), (2, 8)))
        log.promised = 3
        slave = V3SlaveProtocol(TERMS)
        slave.connected(log.view(), 0)
        for body in (SHAKE, EPOCHS):
            slave.effects()
            slave.receive(memoryview(encode(Frame(3, 0, body))), 0)

        assert [Cut(8)] == slave.effects()
        assert [] == slave.effects()

    def test_a_cut_inside_a_record_is_refused_loudly(self) -> None:
        """
        Outcome 4: an operator must act.
        """
        log = ShortLog(BYTES[:16], history((1, 0)))
        master = Master(log)
        entries = ((1, 0, 12), (3, 12, 24))
        master.say(SHAKE, replace(EPOCHS, entries=entries))

        assert TruncateOutcome.REFUSED is master.last().outcome
        assert master.closed.retry is Retry.OPERATOR
        assert BYTES[:16] == bytes(log.data)

    def test_a_cut_below_confirm_needs_a_higher_epoch(self) -> None:
        """
        B4: the master of the very epoch lost what it had confirmed.
        """
        log = ShortLog(BYTES, history((1, 0), (3, 16)), confirm=24)
        master = Master(log)
        shorter = replace(EPOCHS, end_offset=16, entries=((1, 0, 16), (3, 16, 16)))
        master.say(SHAKE, shorter)

        assert TruncateOutcome.REFUSED is master.last().outcome
        assert master.closed.retry is Retry.OPERATOR
        assert BYTES == bytes(log.data)

    def test_a_higher_epoch_may_cut_below_confirm(self) -> None:
        """
        B4: an election decided, and the log follows it.
        """
        log = ShortLog(BYTES[:16] + b"diverged", history((1, 0), (2, 16)), confirm=24)
        master = Master(log)
        master.say(SHAKE, EPOCHS)

        assert TruncateOutcome.CUT is master.last().outcome
        assert log.confirm == 16

    def test_a_stranger_is_left_alone(self) -> None:
        """
        Outcome 3: a replica that acknowledged records depend on is never wiped.
        """
        log = ShortLog(BYTES, history((2, 0)))
        master = Master(log)
        master.say(SHAKE, EPOCHS)

        assert TruncateOutcome.NO_COMMON_POINT is master.last().outcome
        assert master.closed.retry is Retry.OPERATOR
        assert "resync needed" in master.closed.reason
        assert BYTES == bytes(log.data)

    def test_a_log_without_a_consistent_point_is_wiped_if_no_record_depends_on_it(
        self,
    ) -> None:
        """
        RMQ-R150: then it begins as an empty log does.
        """
        log = ShortLog(BYTES, history((2, 0)))
        master = Master(log, replace(TERMS, may_wipe=lambda: True))
        master.say(SHAKE, EPOCHS)

        assert Wipe() in master.owner.done
        assert TruncateOutcome.EMPTY is master.last().outcome

    def test_the_permission_to_wipe_is_asked_when_the_wipe_is_decided(self) -> None:
        """
        B15: the set may have changed since the link began.
        """
        answers = [True]
        log = ShortLog(BYTES, history((2, 0)))
        master = Master(log, replace(TERMS, may_wipe=lambda: answers[-1]))
        master.say(SHAKE)
        answers.append(False)
        master.say(EPOCHS)

        assert TruncateOutcome.NO_COMMON_POINT is master.last().outcome
        assert BYTES == bytes(log.data)

    def test_a_refusal_may_come_instead_of_data(self) -> None:
        """
        The master looks again at what it was told.
        """
        master = Master()
        refusal = replace(SHAKE, result=CheckResult.REJECTED, reason="resync needed")
        master.say(SHAKE, EPOCHS, refusal)

        assert master.closed.retry is Retry.SOON
        assert "resync needed" in master.closed.reason

    @pytest.mark.parametrize(
        "change",
        [
            {"session_id": 0},
            {"protocol": 2},
            {"frame_bytes_max": 17 << 20},
            {"frame_bytes_max": 88},
            {"heartbeat_ms": 0},
            {"heartbeat_ms": 20_000},
        ],
        ids=str,
    )
    def test_terms_that_cannot_be_end_the_link(self, change: dict[str, Any]) -> None:
        """
        A session is what both can keep.
        """
        master = Master()
        master.say(replace(SHAKE, **change))

        assert master.closed.retry is Retry.SOON
        assert master.state is State.READY

    def test_another_size_of_segments_needs_somebody(self) -> None:
        """
        The bytes would not fall into place.
        """
        master = Master()
        master.say(replace(SHAKE, segment_size=1 << 11))

        assert master.closed.retry is Retry.OPERATOR

    def test_ourselves_are_no_master(self) -> None:
        """
        A wrong address.
        """
        master = Master()
        master.say(replace(SHAKE, broker_id=2))

        assert master.closed.retry is Retry.ASK_CONTROLLER

    @pytest.mark.parametrize("count", [0, 1, 2])
    def test_a_reply_that_does_not_come_ends_the_link(self, count: int) -> None:
        """
        RMQ-K.3.8: five seconds for each, whatever came before.
        """
        master = Master()
        for body in (SHAKE, EPOCHS)[:count]:
            master.owner.pass_time(4_999)
            master.say(body)
        master.owner.pass_time(4_999)
        assert master.owner.closed is None
        master.owner.pass_time(1)

        assert master.closed.retry is Retry.SOON
        assert len(master.owner.sent) == count + 1

    def test_the_same_connection_connects_again(self) -> None:
        """
        Nothing of the old session is left.
        """
        master = flowing()
        master.say(data(0))
        master.owner.connection.lost("cut")
        master.owner.connect()
        master.say(replace(SHAKE, session_id=5), replace(EPOCHS, session_id=5))

        assert master.last().session_id == 5
        assert (1, 8, 8) == (
            master.last().epoch,
            master.last().point,
            master.last().start_offset,
        )
