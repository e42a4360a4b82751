"""
The master's end of a v3 connection once the slave is in: blocks out, acks in.
"""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from lib.ha.master_bench import (
    EMPTY,
    LOG,
    ROSTER,
    SESSION,
    TERMS,
    Bench,
    ack,
    answer,
    confirmed,
    content,
    data_of,
    frames_in,
    reason_of,
    shake,
)
from lib.values import replace

from pystore.ha.insync.facts import SessionAcked, SessionEnded
from pystore.ha.master.effects import CloseLink, SendBlock
from pystore.ha.wire.codes import (
    AckFlag,
    AckStatus,
    DataFlag,
    MasterFlag,
    SlaveFlag,
    State,
    TruncateFlag,
)
from pystore.ha.wire.frames import (
    NextQueueOffset,
    QueryEpoch,
    QueryQueues,
    ReturnQueues,
    TransferData,
)


def empty_from(base: int) -> Bench:
    """A connection to an empty slave of a log that begins there."""
    bench = Bench()
    bench.log = replace(LOG, min_offset=base)
    bench.hear(shake())
    if base:
        bench.hear(QueryQueues(SESSION))
    bench.hear(replace(EMPTY, end_offset=base, start_offset=base))
    bench.blocks()
    return bench


class TestBlocks:
    """TRANSFER_DATA with bytes."""

    def test_flow_control_limits_a_block(self) -> None:
        """What is not allowed now is sent later."""
        bench = Bench().opened()
        block = bench.connection.next_block(bench.log, 10, 0)

        assert block is not None
        assert (block.offset, block.size) == (1500, 10)
        assert bench.connection.next_block(bench.log, 0, 0) is None
        assert [block.offset for block in bench.blocks()] == [1510, 2048, 2500]

    def test_the_terms_limit_a_block(self) -> None:
        """And so does the frame that the slave takes."""
        assert {block.size for block in self._all(block_bytes_max=100)} == {100, 48, 52}
        bench = Bench()
        bench.log = replace(LOG, end_offset=90000, segment_size=1 << 20)
        bench.hear(shake(frame_bytes_max=5000), confirmed())
        sizes = [len(block.head) + block.size for block in bench.blocks()]

        assert max(sizes) == 5000

    def _all(self, **changes: Any) -> list[SendBlock]:
        return Bench(replace(TERMS, **changes)).opened().blocks()

    def test_nothing_is_sent_before_the_slave_said_where(self) -> None:
        """The handshake is no transfer."""
        bench = Bench()
        bench.hear(shake(), QueryEpoch(SESSION))

        assert bench.blocks() == []

    def test_an_append_is_sent_from_where_the_last_block_ended(self) -> None:
        """In the epoch of its bytes, without a beginning."""
        bench = Bench().opened()
        bench.blocks()
        bench.grow(7)
        (block,) = bench.blocks()
        data = data_of(block)

        assert (data.offset, data.end_offset, data.epoch) == (3000, 3007, 4)
        assert data.flags == DataFlag(0)

    def test_the_owner_puts_the_checksum_where_the_head_has_it(self) -> None:
        """The connection has no bytes to sum."""
        bench = Bench(replace(TERMS, has_block_crc=True))
        bench.hear(shake(flags=SlaveFlag.BLOCK_CRC), confirmed())
        block = bench.blocks()[0]
        assert block.crc_at is not None
        at = block.crc_at
        crc = zlib.crc32(content(block.offset, block.size))
        head = block.head[:at] + crc.to_bytes(4, "big") + block.head[at + 4 :]

        assert data_of(replace(block, head=head)).crc == crc
        assert data_of(block) == replace(data_of(replace(block, head=head)), crc=0)

    def test_no_checksum_is_asked_for_where_none_was_agreed(self) -> None:
        """The head is complete."""
        assert {block.crc_at for block in Bench().opened().blocks()} == {None}

    def test_a_slave_overtaken_by_retention_is_refused_with_the_minimum(self) -> None:
        """RMQ-R100: its next byte is gone."""
        bench = Bench().opened()
        bench.log = replace(LOG, min_offset=2048)

        assert bench.blocks() == []
        effects = bench.connection.effects()
        assert answer(effects).reason.startswith("resync needed")
        assert SessionEnded(2, SESSION, is_graceful=False) in effects


class TestAcks:
    """TRANSFER_ACK."""

    def test_an_ack_says_what_is_held_and_since_when(self) -> None:
        """The time is ours, of the frame whose end it holds."""
        bench = Bench().opened()
        bench.now_ms = 30
        bench.blocks()
        bench.now_ms = 90

        assert bench.hear(ack(3000, 2000)) == [
            SessionAcked(2, SESSION, 3000, 2000, 30, AckStatus.OK)
        ]

    def test_a_slave_that_holds_less_than_any_frame_named_was_never_caught_up(
        self,
    ) -> None:
        """RMQ-R99: sending moves nothing."""
        bench = Bench().opened()
        bench.blocks()
        (acked,) = bench.hear(ack(2500))

        assert isinstance(acked, SessionAcked)
        assert acked.caught_up_ms is None

    def test_an_end_that_was_not_echoed_does_not_count(self) -> None:
        """RMQ-K.3: the slave has to have been told."""
        bench = Bench().opened()
        bench.blocks()
        (acked,) = bench.hear(ack(3000, echo_end_offset=2999))

        assert isinstance(acked, SessionAcked)
        assert acked.caught_up_ms is None

    def test_a_heartbeat_on_an_idle_log_moves_the_time(self) -> None:
        """With the ack that follows it."""
        bench = Bench().opened()
        bench.blocks()
        bench.hear(ack(3000))
        bench.tick(5000)
        (acked,) = bench.hear(ack(3000))

        assert isinstance(acked, SessionAcked)
        assert acked.caught_up_ms == 5000

    @pytest.mark.parametrize("received", [1501, 3000, 3001, 2**40])
    def test_an_ack_above_what_was_sent_ends_the_session(self, received: int) -> None:
        """RMQ-R130: even if our log is that long."""
        bench = Bench().opened()
        effects = bench.hear(ack(received))

        assert f"an ack of offset {received}, above the sent 1500" in reason_of(effects)
        assert effects[0] == SessionEnded(2, SESSION, is_graceful=False)
        assert bench.connection.state is State.READY

    def test_acks_never_fall(self) -> None:
        """Below an earlier one, or below what the slave began with."""
        bench = Bench().opened()
        bench.blocks()
        bench.hear(ack(2600))

        assert "an ack of offset 2599 after an ack of offset 2600" in reason_of(
            bench.hear(ack(2599))
        )
        assert "an ack of offset 1499" in reason_of(Bench().opened().hear(ack(1499)))

    @pytest.mark.parametrize("base", [0, 2048])
    def test_an_empty_log_acks_nothing_wherever_it_begins(self, base: int) -> None:
        """Its begin is no end of ours until it has a byte of ours."""
        bench = empty_from(base)

        assert bench.hear(ack(base)) == [
            SessionAcked(2, SESSION, 0, 0, None, AckStatus.OK)
        ]
        (acked,) = bench.hear(ack(base + 10))
        assert isinstance(acked, SessionAcked)
        assert acked.received_offset == base + 10
        assert isinstance(bench.hear(ack(base))[-1], CloseLink)

    def test_a_log_that_was_empty_begins_where_it_was_agreed(self) -> None:
        """An end below that is of another log."""
        reason = reason_of(empty_from(2048).hear(ack(2047)))
        assert "a log that begins at offset 2048" in reason

    def test_an_empty_slave_gets_the_queue_offsets_of_its_begin_in_pages(self) -> None:
        """A20: of one snapshot, however the log goes on."""
        bench = Bench()
        table = tuple(NextQueueOffset("t" * 1000, number, 5) for number in range(9))
        asked: list[int] = []

        def queue_offsets(offset: int) -> tuple[NextQueueOffset, ...]:
            asked.append(offset)
            return table

        bench.log = replace(LOG, min_offset=2048, queue_offsets=queue_offsets)
        bench.hear(shake(frame_bytes_max=4096))
        found: list[NextQueueOffset] = []
        for first in (0, 3, 6):
            (frame,) = frames_in(bench.hear(QueryQueues(SESSION, first)))
            page = frame.body
            assert isinstance(page, ReturnQueues)
            assert (2048, 2048, 9) == (
                page.min_offset,
                page.start_offset,
                page.entries_total,
            )
            found += page.entries
        assert table == tuple(found)
        assert [2048] == asked
        reason = reason_of(bench.hear(QueryQueues(SESSION, 10)))
        assert "a query for queue 10 of a table of 9" in reason

    def test_the_rest_of_a_table_that_was_not_begun_is_a_violation(self) -> None:
        """Its snapshot is taken with the first query."""
        bench = Bench()
        bench.hear(shake())
        assert "was not begun" in reason_of(bench.hear(QueryQueues(SESSION, 1)))

    def test_flushed_lies_below_received_and_never_falls(self) -> None:
        """What is durable was received, and stays."""
        bench = Bench().opened()
        bench.hear(ack(1500, 1400))

        assert "flushed offset 1399 after 1400" in reason_of(
            bench.hear(ack(1500, 1399))
        )
        ahead = Bench().opened().hear(ack(1500, 1501))
        assert "flushed offset 1501 after 0, and received" in reason_of(ahead)

    @pytest.mark.parametrize("status", list(AckStatus))
    def test_what_ails_a_slave_is_passed_on(self, status: AckStatus) -> None:
        """B9 judges it; what was not taken ends the link, which begins anew."""
        effects = Bench().opened().hear(ack(1500, status=status))
        is_over = status in (AckStatus.GAP, AckStatus.DISK_FULL, AckStatus.BAD_CRC)

        assert isinstance(effects[0], SessionAcked)
        assert status == effects[0].status
        assert is_over == isinstance(effects[-1], CloseLink)
        assert not is_over or f"reports {status.name} at offset 1500" in reason_of(
            effects
        )

    def test_a_learner_in_a_session_that_counts_is_a_violation(self) -> None:
        """It would be counted."""
        effects = Bench().opened().hear(ack(1500, flags=AckFlag.LEARNER))

        assert "a learner's ack" in reason_of(effects)

    def test_a_learners_ack_is_an_ack(self) -> None:
        """It says every time what it is."""
        bench = Bench().opened(confirmed(flags=TruncateFlag.LEARNER))
        effects = bench.hear(ack(1500, flags=AckFlag.LEARNER))

        assert [type(effect) for effect in effects] == [SessionAcked]

    def test_a_slave_that_leaves_is_believed(self) -> None:
        """After its last ack; what it says behind that is void."""
        effects = Bench().opened().hear(ack(1500, flags=AckFlag.LEAVING), ack(1500))

        assert isinstance(effects[0], SessionAcked)
        assert effects[1:] == [
            SessionEnded(2, SESSION, is_graceful=True),
            CloseLink("the slave ended the session"),
        ]

    @pytest.mark.parametrize("state", [State.HANDSHAKE, State.READY])
    def test_no_ack_counts_outside_transfer_and_suspend(self, state: State) -> None:
        """Neither before the agreement nor after the end."""
        bench = Bench()
        bench.hear(shake())
        if state is State.READY:
            bench.connection.lost("gone")
        effects = bench.hear(ack(0))

        assert not any(isinstance(effect, SessionAcked) for effect in effects)


class TestPausing:
    """What a slave asks for; `test_ha_master_link` has our own side."""

    def test_a_slave_pauses_and_goes_on(self) -> None:
        """Heartbeats say so; nothing moves, then it goes on where it was."""
        bench = Bench().opened()
        bench.hear(ack(1500, flags=AckFlag.SUSPEND))
        (paused,) = frames_in(bench.tick())

        assert bench.connection.state is State.SUSPEND
        assert bench.blocks() == []
        assert isinstance(paused.body, TransferData)
        assert paused.body.flags is DataFlag.SUSPENDED

        bench.hear(ack(1500, flags=AckFlag.RESUME))
        (going,) = frames_in(bench.tick())

        assert isinstance(going.body, TransferData)
        assert going.body.flags == DataFlag(0)
        assert bench.blocks()[0].offset == 1500

    @pytest.mark.parametrize("where", ["hello", "cut", "ack"])
    def test_a_slave_that_acks_wait_for_is_not_paused(self, where: str) -> None:
        """RMQ-K.3: acknowledgements would wait for ever."""
        bench = Bench(set_view=replace(ROSTER, candidates=frozenset({2})))
        start = SlaveFlag.START_SUSPENDED if where == "hello" else SlaveFlag(0)
        cut = TruncateFlag.START_SUSPENDED if where == "cut" else TruncateFlag(0)
        flags = answer(bench.hear(shake(flags=start))).flags
        bench.hear(confirmed(flags=cut))
        bench.hear(ack(1500, flags=AckFlag.SUSPEND))

        assert flags == MasterFlag(0)
        assert bench.connection.state is State.TRANSFER

    @pytest.mark.parametrize("where", ["hello", "cut"])
    def test_a_slave_may_begin_paused(self, where: str) -> None:
        """The first data says that it is."""
        bench = Bench()
        start = SlaveFlag.START_SUSPENDED if where == "hello" else SlaveFlag(0)
        cut = TruncateFlag.START_SUSPENDED if where == "cut" else TruncateFlag(0)
        flags = answer(bench.hear(shake(flags=start))).flags
        (frame,) = frames_in(bench.hear(confirmed(flags=cut)))

        assert (where == "hello") == bool(flags & MasterFlag.SUSPENDED)
        assert bench.connection.state is State.SUSPEND
        assert isinstance(frame.body, TransferData)
        assert frame.body.flags is DataFlag.SUSPENDED
        assert bench.blocks() == []
