"""
A v3 slave that is suspended, shut down, or hears what it must not.
"""

from __future__ import annotations

import random

import pytest
from lib.ha.scripted_v3_master import (
    BYTES,
    DATA,
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

from pystore.errors import LocalViolation
from pystore.ha.slave.effects import (
    Compare,
    Cut,
    Retry,
)
from pystore.ha.slave.protocol_v3 import V3SlaveProtocol
from pystore.ha.wire.codes import (
    AckFlag,
    AckStatus,
    DataFlag,
    SlaveFlag,
    State,
    TruncateFlag,
)
from pystore.ha.wire.frames import (
    Body,
    Frame,
    QueryEpoch,
    TransferAck,
)
from pystore.ha.wire.v3 import encode


class TestSuspend:
    """The link stays, and no bytes move."""

    def test_the_master_is_asked_until_it_agrees(self) -> None:
        """
        Acks carry the wish; bytes that come meanwhile are taken.
        """
        master = flowing()
        master.owner.connection.suspend(master.owner.now_ms)
        master.owner.settle()
        assert AckFlag.SUSPEND == master.last().flags
        master.say(data(0))
        assert AckFlag.SUSPEND == master.last().flags
        master.say(replace(DATA, offset=8, flags=DataFlag.SUSPENDED))

        assert State.SUSPEND is master.state
        assert AckFlag(0) == master.last().flags
        assert BYTES[:8] == bytes(master.log.data)

    def test_the_first_frame_without_the_flag_resumes(self) -> None:
        """
        RMQ-K.3: it goes on at our end.
        """
        master = flowing()
        master.say(replace(DATA, flags=DataFlag.SUSPENDED))
        master.owner.connection.resume(master.owner.now_ms)
        master.owner.settle()
        assert AckFlag.RESUME == master.last().flags
        master.say(data(0))

        assert State.TRANSFER is master.state
        assert AckFlag(0) == master.last().flags

    def test_a_suspended_start_is_told_in_the_handshake(self) -> None:
        """
        Both frames have a flag for it.
        """
        master = Master(config=replace(TERMS, is_suspended=True))
        master.say(SHAKE, EPOCHS)

        assert SlaveFlag.START_SUSPENDED in master.heard()[0].body.flags  # type: ignore[union-attr]
        assert TruncateFlag.START_SUSPENDED in master.last().flags


class TestEnds:
    """However it ends, nothing comes after."""

    def test_a_shutdown_says_goodbye(self) -> None:
        """
        The last ack leaves gracefully.
        """
        master = flowing()
        master.say(data(0))
        master.owner.connection.shutdown(master.owner.now_ms)
        master.owner.settle()

        assert AckFlag.LEAVING == master.last().flags
        assert AckStatus.SHUTTING_DOWN is master.last().status
        assert master.closed.retry is Retry.NEVER
        assert State.SHUTDOWN is master.state
        assert master.owner.connection.next_deadline() is None

    def test_after_a_shutdown_nothing_connects(self) -> None:
        """
        The state is never left.
        """
        master = Master()
        master.owner.connection.shutdown(0)
        master.owner.connect()

        assert master.closed.retry is Retry.NEVER
        assert State.SHUTDOWN is master.state

    def test_what_was_under_way_ends_with_the_link(self) -> None:
        """
        A cut that completes after the end of the socket is not reported.
        """
        log = ShortLog(BYTES[:8] + b"diverged", history((1, 0), (2, 8)))
        log.promised = 3
        slave = V3SlaveProtocol(TERMS)
        slave.connected(log.view(), 0)
        slave.receive(memoryview(encode(Frame(3, 0, SHAKE))), 0)
        slave.receive(memoryview(encode(Frame(3, 0, EPOCHS))), 0)
        slave.effects()
        slave.lost("reset")
        slave.did(Cut(8), log.view(), 0)
        slave.failed(Cut(8), "busy", 0)
        slave.tick(100_000)

        assert [] == slave.effects()
        assert slave.next_deadline() is None

    def test_a_v3_slave_compares_nothing(self) -> None:
        """
        Its master tells every epoch: no bytes have to be compared.
        """
        slave = V3SlaveProtocol(TERMS)
        with pytest.raises(LocalViolation):
            slave.differs(Compare(0, b""), 0, ShortLog().view(), 0)

    @pytest.mark.parametrize("count", range(4))
    def test_a_frame_out_of_turn_ends_the_link(self, count: int) -> None:
        """
        Each frame in each state that has no place for it.
        """
        turns: list[Body] = [SHAKE, EPOCHS, DATA]
        allowed: Body = (SHAKE, EPOCHS, DATA, DATA)[count]
        own = TransferAck(SESSION, 0, 0, 0, 0, 0, AckStatus.OK, AckFlag(0))
        for wrong in (SHAKE, EPOCHS, DATA, QueryEpoch(SESSION), own):
            if wrong is allowed:
                continue
            master = Master()
            master.say(*turns[:count])
            promised = master.log.promised
            sent = len(master.owner.sent)
            master.say(wrong)

            assert master.closed.retry is Retry.SOON, wrong
            assert State.READY is master.state
            assert promised == master.log.promised
            assert sent == len(master.owner.sent)

    def test_garbage_ends_the_link_in_every_state(self) -> None:
        """
        Random bytes, and good frames with random bytes changed.
        """
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        chance = random.Random(seed)
        for turn in range(300):
            master = Master()
            master.say(*(SHAKE, EPOCHS, DATA)[: turn % 4])
            frame = bytearray(encode(Frame(3, 1, (SHAKE, EPOCHS, data(0))[turn % 3])))
            for _ in range(chance.randrange(1, 4)):
                frame[chance.randrange(24)] = chance.randrange(256)
            if chance.random() < 0.3:
                frame = bytearray(chance.randbytes(200))
            master.owner.feed(bytes(frame), bytes(frame))
            master.owner.pass_time(60_000)

            assert master.owner.closed is not None
            assert bytes(master.log.data) in (b"", BYTES[:8])
            assert master.log.promised in (-1, 3)

    @pytest.mark.parametrize("length", [23, -1, 0, (1 << 20) + 1])
    def test_a_length_that_no_frame_has_ends_the_link_at_once(
        self, length: int
    ) -> None:
        """
        RMQ-R272: nothing of it is waited for.
        """
        master = Master()
        master.owner.feed(length.to_bytes(4, "big", signed=True))

        assert master.closed.retry is Retry.SOON

    def test_a_frame_of_a_later_version_is_skipped(self) -> None:
        """
        RMQ-K.3.5: types from 16 on.
        """
        master = flowing()
        frame = bytearray(encode(Frame(3, 1, DATA)))
        frame[7] = 16
        master.owner.feed(bytes(frame))
        master.say(data(0))

        assert BYTES[:8] == bytes(master.log.data)
