"""
The master's end of a legacy connection, frame by frame and state by state.
"""

from __future__ import annotations

import pytest
from lib.ha.master_bench import (
    LOG,
    ROSTER,
    SESSION,
    TERMS,
    LegacyBench,
    content,
    legacy_of,
    reason_of,
)
from lib.values import replace

from pystore.epochs.table import EpochTable
from pystore.errors import RemoteViolation
from pystore.ha.insync.facts import SessionAcked, SessionEnded, SessionOpened
from pystore.ha.master.protocol_legacy import epochs_for_handshake
from pystore.ha.wire.codes import LEGACY_EPOCH_MAX, AckStatus, State
from pystore.ha.wire.effects import Send
from pystore.ha.wire.legacy import (
    LEGACY_EPOCHS_MAX,
    LegacyAck,
    LegacyData,
    LegacyEpochs,
    LegacyHandshake,
    encode_legacy,
)

SHAKE = LegacyHandshake(2)
TABLE = ((1, 0), (2, 1000), (4, 2500))


def sent(bench: LegacyBench) -> list[LegacyData]:
    """Everything that is sent now."""
    frames = [legacy_of(block) for block in bench.blocks()]
    return [frame for frame in frames if isinstance(frame, LegacyData)]


class TestHandshake:
    """The answer is the epoch table."""

    def test_each_handshake_is_answered_once(self) -> None:
        """Formats 6.5: a Java slave repeats it until it read the answer."""
        bench = LegacyBench()
        effects = bench.say(SHAKE, SHAKE)

        assert [legacy_of(effect) for effect in effects] == 2 * [
            LegacyEpochs(3000, 4, TABLE)
        ]
        assert bench.connection.state is State.HANDSHAKE

    def test_a_slave_may_report_with_its_first_heartbeat(self) -> None:
        """Formats 6.5: after 5 s by default, as long as a handshake may take."""
        bench = LegacyBench()
        bench.say(SHAKE)

        assert bench.tick(TERMS.housekeeping_ms - 1) == []
        effects = bench.tick(1)
        assert reason_of(effects) == "the slave sent nothing for 20000 ms"

    @pytest.mark.parametrize("size", [12, 13, 14, 15])
    def test_a_handshake_without_its_whole_id_waits(self, size: int) -> None:
        """RMQ-R197: RocketMQ's master reads another id from it."""
        bench = LegacyBench()
        raw = encode_legacy(SHAKE)

        assert bench.connection.receive(memoryview(raw)[:size], LOG, 0) == 0
        assert len(bench.hear_bytes(raw)) == 1

    @pytest.mark.parametrize(
        ("broker_id", "reason"),
        [
            (1, "this master's own"),
            (9, "knows no broker 9"),
            (
                15 << 32 | 0x3132372E,
                "older than RocketMQ 5.1.1 sends its address there",
            ),
        ],
    )
    def test_a_slave_of_another_set_gets_no_answer(
        self, broker_id: int, reason: str
    ) -> None:
        """RMQ-R199: closed, since the protocol has no way to say why."""
        effects = LegacyBench().say(LegacyHandshake(broker_id))

        assert reason in reason_of(effects)
        assert len(effects) == 1

    def test_one_link_is_one_slave(self) -> None:
        """A second handshake may not change what the first said."""
        effects = LegacyBench().say(SHAKE, LegacyHandshake(3))

        assert "on this link" in reason_of(effects)

    def test_a_busy_master_and_one_that_is_none_close(self) -> None:
        """The slave comes back, or asks for the master."""
        for set_view, reason in (
            (replace(ROSTER, is_busy=True), "no more sessions"),
            (replace(ROSTER, is_master=False), "is not the master"),
        ):
            assert reason in reason_of(LegacyBench(set_view=set_view).say(SHAKE))

    def test_a_handshake_after_the_first_report_is_a_violation(self) -> None:
        """The session has begun."""
        effects = LegacyBench().following().say(SHAKE)

        assert "received the handshake in state TRANSFER" in reason_of(effects)

    def test_an_epoch_that_no_legacy_frame_names_ends_legacy_mode(self) -> None:
        """An int32 would be another epoch."""
        epoch = LEGACY_EPOCH_MAX + 1
        bench = LegacyBench(replace(TERMS, epoch=epoch))
        bench.log = replace(LOG, epochs=LOG.epochs.append(epoch, 3000))

        assert f"epoch {epoch}" in reason_of(bench.say(SHAKE))

    def test_the_newest_epoch_that_has_a_name_is_served(self) -> None:
        """The limit itself."""
        bench = LegacyBench(replace(TERMS, epoch=LEGACY_EPOCH_MAX))
        bench.log = replace(LOG, epochs=LOG.epochs.append(LEGACY_EPOCH_MAX, 3000))

        assert isinstance(legacy_of(bench.say(SHAKE)[0]), LegacyEpochs)


class TestTables:
    """RMQ-R198: what does not fit is cut."""

    def test_a_table_that_fits_is_sent_whole(self) -> None:
        """Epochs of deleted bytes too: they may be the common ones."""
        log = replace(LOG, min_offset=2048)

        assert epochs_for_handshake(log) == LOG.epochs

    def test_a_table_that_does_not_fit_is_cut_to_what_the_log_holds(self) -> None:
        """And if that is too long, to the newest."""
        count = LEGACY_EPOCHS_MAX + 50
        epochs = EpochTable.of((n, 10 * n) for n in range(count))
        log = replace(LOG, epochs=epochs, end_offset=10 * count, min_offset=995)
        told = epochs_for_handshake(log).pairs()
        assert told[0] == (99, 990)
        assert told[-1] == (count - 1, 10 * (count - 1))

        told = epochs_for_handshake(replace(log, min_offset=0)).pairs()
        assert len(told) == LEGACY_EPOCHS_MAX
        assert told[-1] == (count - 1, 10 * (count - 1))


class TestFirstReport:
    """It fixes the start."""

    @pytest.mark.parametrize("offset", [1, 999, 1000, 2500, 3000])
    def test_a_slave_goes_on_where_it_says(self, offset: int) -> None:
        """If an epoch covers that; what it holds below is ours."""
        bench = LegacyBench()
        bench.say(SHAKE)
        effects = bench.say(LegacyAck(offset))

        assert effects == [
            SessionOpened(2, None, SESSION, offset, is_learner=False, is_legacy=True),
            SessionAcked(2, SESSION, offset, None, None, AckStatus.OK),
        ]
        blocks = [frame for frame in sent(bench) if frame.block]
        found = b"".join(bytes(frame.block) for frame in blocks)
        assert found == content(offset, 3000 - offset)

    @pytest.mark.parametrize(
        ("min_offset", "is_last", "start"),
        [(0, False, 0), (0, True, 2048), (2048, False, 2048), (2048, True, 2048)],
    )
    def test_zero_means_from_the_beginning(
        self, min_offset: int, is_last: bool, start: int
    ) -> None:
        """Of the log, or of the last segment where the slave asked for that."""
        bench = LegacyBench()
        bench.log = replace(LOG, min_offset=min_offset)
        bench.say(LegacyHandshake(2, is_from_last_file=is_last))
        effects = bench.say(LegacyAck(0))

        assert isinstance(effects[0], SessionOpened)
        assert effects[0].offset is None
        # One of RocketMQ never says more of where its log begins (B11).
        assert effects[0].is_learner is is_last
        assert sent(bench)[0].offset == start

    def test_a_learner_is_one(self) -> None:
        """RMQ-R203."""
        bench = LegacyBench()
        bench.say(LegacyHandshake(2, is_learner=True))
        opened = bench.say(LegacyAck(0))[0]

        assert isinstance(opened, SessionOpened)
        assert opened.is_learner

    @pytest.mark.parametrize("offset", [3001, 2**62])
    def test_a_report_above_our_end_closes(self, offset: int) -> None:
        """RMQ-R130: RocketMQ counts it."""
        bench = LegacyBench()
        bench.say(SHAKE)

        assert f"reports offset {offset}" in reason_of(bench.say(LegacyAck(offset)))

    def test_a_report_below_our_beginning_closes_with_the_reason(self) -> None:
        """RMQ-R100: RocketMQ waits for ever."""
        bench = LegacyBench()
        bench.log = replace(LOG, min_offset=2048)
        bench.say(SHAKE)

        assert reason_of(bench.say(LegacyAck(2047))) == (
            "resync needed: the slave reports offset 2047, the master's log holds "
            "offsets 2048 to 3000"
        )

    def test_a_report_that_no_epoch_covers_closes(self) -> None:
        """RMQ-R188: RocketMQ sends a block of a negative size."""
        bench = LegacyBench()
        bench.log = replace(LOG, epochs=EpochTable.of([(4, 2500)]))
        bench.say(SHAKE)

        assert "no epoch covers offset 2499" in reason_of(bench.say(LegacyAck(2499)))

    def test_a_beginning_that_no_epoch_covers_closes(self) -> None:
        """An empty slave is not sent bytes without a label either."""
        bench = LegacyBench()
        bench.log = replace(LOG, epochs=EpochTable.of([(4, 2500)]))
        bench.say(SHAKE, LegacyAck(0))

        assert bench.blocks() == []
        assert "no epoch covers offset 0" in reason_of(bench.connection.effects())

    def test_a_report_before_the_handshake_is_a_violation(self) -> None:
        """RMQ-R196: RocketMQ begins a session of broker -1."""
        assert "before a handshake" in reason_of(LegacyBench().say(LegacyAck(0)))


class TestBlocks:
    """Transfer frames."""

    def test_labels_are_of_the_first_byte_and_announced(self) -> None:
        """RMQ-R191: a frame without a block goes ahead where the epoch changes."""
        frames = sent(LegacyBench().following(900))

        assert [
            (frame.offset, len(frame.block), frame.epoch, frame.epoch_start)
            for frame in frames
        ] == [
            (900, 0, 1, 0),
            (900, 100, 1, 0),
            (1000, 0, 2, 1000),
            (1000, 700, 2, 1000),
            (1700, 348, 2, 1000),
            (2048, 452, 2, 1000),
            (2500, 0, 4, 2500),
            (2500, 500, 4, 2500),
        ]
        assert {frame.confirm_offset for frame in frames} == {2800}

    def test_the_first_heartbeat_is_due_at_once(self) -> None:
        """It names the start; what it announced is not announced again."""
        bench = LegacyBench().following()
        (beat,) = bench.tick()

        assert legacy_of(beat) == LegacyData(1500, 2, 1000, 2800)
        assert sent(bench)[0].block

    def test_a_heartbeat_names_the_epoch_of_the_next_byte(self) -> None:
        """A newer one would enter the slave's table before the older bytes."""
        bench = LegacyBench().following(1000)

        assert legacy_of(bench.tick()[0]) == LegacyData(1000, 2, 1000, 2800)

    def test_an_epoch_without_a_byte_is_not_named(self) -> None:
        """
        RMQ-R137: the next one may take its place, and Java keeps what it was told.
        """
        bench = LegacyBench(replace(TERMS, epoch=5))
        bench.log = replace(LOG, epochs=LOG.epochs.append(5, 3000))
        bench.following(3000)
        assert legacy_of(bench.tick()[0]) == LegacyData(3000, 4, 2500, 2800)

        bench.grow(1)
        assert [(f.epoch, len(f.block)) for f in sent(bench)] == [(5, 0), (5, 1)]

    def test_an_empty_master_sends_heartbeats_that_name_no_offset(self) -> None:
        """Nor an epoch, for the same reason; then it begins with its first byte."""
        bench = LegacyBench()
        bench.log = replace(LOG, end_offset=0, epochs=EpochTable.of([(4, 0)]))
        bench.following(0)
        assert bench.blocks() == []
        assert legacy_of(bench.tick()[0]) == LegacyData(-1, -1, 0, 2800)
        assert legacy_of(bench.tick(5000)[0]) == LegacyData(-1, -1, 0, 2800)

        bench.grow(10)
        assert [(f.offset, f.epoch, len(f.block)) for f in sent(bench)] == [
            (0, 4, 0),
            (0, 4, 10),
        ]

    def test_a_heartbeat_fixes_the_start_as_well(self) -> None:
        """Whichever comes first after the first byte."""
        bench = LegacyBench()
        bench.log = replace(LOG, end_offset=0, epochs=EpochTable.of([(4, 0)]))
        bench.following(0)
        bench.tick()
        bench.grow(10)
        bench.log = replace(bench.log, min_offset=0)

        assert legacy_of(bench.tick(5000)[0]) == LegacyData(0, 4, 0, 2800)

    def test_a_new_epoch_disconnects(self) -> None:
        """A Java slave learns epochs by connecting again."""
        bench = LegacyBench().following()
        bench.log = replace(LOG, epochs=LOG.epochs.append(5, 3000))

        assert bench.blocks() == []
        effects = bench.connection.effects()
        assert "stale epoch 4 of the session: the log is at epoch 5" in reason_of(
            effects
        )
        assert SessionEnded(2, SESSION, is_graceful=False) in effects

    def test_a_slave_overtaken_by_retention_is_closed(self) -> None:
        """By the next block, or by the next heartbeat."""
        for is_beat in (True, False):
            bench = LegacyBench().following()
            bench.log = replace(LOG, min_offset=2048)
            effects = bench.tick(5000) if is_beat else []
            bench.blocks()

            assert "resync needed" in reason_of(effects + bench.connection.effects())


class TestAcks:
    """Reports after the first."""

    def test_an_ack_says_what_is_held_but_never_what_is_flushed(self) -> None:
        """Design 6: `all-synced` cannot be promised with it."""
        bench = LegacyBench().following()
        bench.now_ms = 20
        bench.blocks()
        bench.now_ms = 50

        assert bench.say(LegacyAck(3000)) == [
            SessionAcked(2, SESSION, 3000, None, 20, AckStatus.OK)
        ]

    def test_an_ack_above_what_was_sent_closes(self) -> None:
        """RMQ-R130."""
        effects = LegacyBench().following().say(LegacyAck(1501))

        assert "an ack of offset 1501, above the sent 1500" in reason_of(effects)

    def test_an_ack_before_the_first_byte_was_chosen_is_of_nothing(self) -> None:
        """An empty master has sent nothing."""
        bench = LegacyBench()
        bench.log = replace(LOG, end_offset=0, epochs=EpochTable.of([(4, 0)]))
        bench.following(0)

        assert len(bench.say(LegacyAck(0))) == 1
        assert "above the sent 0" in reason_of(bench.say(LegacyAck(1)))

    def test_acks_never_fall(self) -> None:
        """A slave that cut its log connects again."""
        bench = LegacyBench().following()

        assert "after an ack of offset 1500" in reason_of(bench.say(LegacyAck(1499)))


def test_the_answer_goes_out_in_one_write() -> None:
    """A Java slave would parse half an answer."""
    (effect,) = LegacyBench().say(SHAKE)

    assert isinstance(effect, Send)
    assert isinstance(legacy_of(effect), LegacyEpochs)


def test_violations_are_the_peers() -> None:
    """No exception leaves the connection for what a slave said."""
    assert issubclass(RemoteViolation, Exception)
    assert LegacyBench().say(LegacyHandshake(2), LegacyAck(2**63 - 1))[-1]
