"""
The master's end of a v3 connection: how a slave gets in, and what ends a session.
"""

from __future__ import annotations

from typing import Any

import pytest
from lib.ha.master_bench import (
    BITS,
    EMPTY,
    EPOCH,
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

from pystore.epochs.table import EpochTable
from pystore.ha.insync.facts import SessionEnded, SessionOpened
from pystore.ha.master.effects import CloseLink, NewerEpochSeen
from pystore.ha.wire.codes import (
    CheckResult,
    DataFlag,
    EpochsFlag,
    MasterFlag,
    SlaveFlag,
    State,
    TruncateFlag,
    TruncateOutcome,
)
from pystore.ha.wire.frames import (
    Body,
    HandshakeMaster,
    QueryEpoch,
    ReturnEpoch,
    TransferData,
)
from pystore.replicaset import Incarnation

OPENED = SessionOpened(
    2, Incarnation(5, BITS), SESSION, 1500, is_learner=False, is_legacy=False
)


class TestHandshake:
    """HANDSHAKE_SLAVE, and the answer."""

    def test_a_slave_receives_the_configuration(self) -> None:
        """The frame limit is the lower one; the session has an id."""
        bench = Bench(replace(TERMS, frame_bytes_max=1 << 22))
        (frame,) = frames_in(bench.hear(shake()))

        assert (frame.epoch, frame.sent_ms) == (EPOCH, TERMS.wall_ms)
        assert frame.body == HandshakeMaster(
            result=CheckResult.SUCCESS,
            protocol=3,
            broker_id=1,
            session_id=SESSION,
            epoch_start=2500,
            min_offset=0,
            end_offset=3000,
            confirm_offset=2800,
            segment_size=2048,
            frame_bytes_max=1 << 20,
            heartbeat_ms=5000,
            housekeeping_ms=20000,
            flags=MasterFlag(0),
            redirect="",
            reason="",
        )
        assert bench.connection.state is State.HANDSHAKE

    @pytest.mark.parametrize(
        ("ours", "theirs", "is_on"), [(1, 8, 1), (0, 8, 0), (1, 0, 0)]
    )
    def test_blocks_have_checksums_if_both_sides_want_them(
        self, ours: int, theirs: int, is_on: int
    ) -> None:
        """The slave offers, the master decides."""
        bench = Bench(replace(TERMS, has_block_crc=bool(ours)))
        flags = answer(bench.hear(shake(flags=SlaveFlag(theirs)))).flags

        assert bool(is_on) == bool(flags & MasterFlag.BLOCK_CRC)

    def test_a_refusal_is_sent_and_then_the_link_is_closed(self) -> None:
        """Without a session id, with the reason in both."""
        effects = Bench().hear(shake(cluster="x"))
        body = answer(effects)

        assert body.result is CheckResult.CLUSTER_NAME
        assert (body.protocol, body.session_id) == (0, 0)
        assert reason_of(effects) == f"CLUSTER_NAME: {body.reason}"
        assert len(effects) == 2

    def test_only_a_broker_that_is_not_master_sends_a_redirect(self) -> None:
        """Elsewhere the field is empty."""
        elsewhere = replace(ROSTER, is_master=False, redirect="h:1")

        assert answer(Bench(set_view=elsewhere).hear(shake())).redirect == "h:1"
        here = replace(ROSTER, redirect="h:1")
        assert answer(Bench(set_view=here).hear(shake())).redirect == ""

    def test_a_newer_epoch_steps_us_down_before_the_answer(self) -> None:
        """RMQ-K.3.4: stop acknowledging first."""
        effects = Bench().hear(shake(), epoch=9)

        assert effects[0] == NewerEpochSeen(9)
        assert answer(effects).result is CheckResult.FUTURE_EPOCH
        assert isinstance(effects[-1], CloseLink)

    def test_a_second_handshake_is_a_violation(self) -> None:
        """One link, one session."""
        assert "second handshake" in reason_of(Bench().hear(shake(), shake()))

    def test_nothing_comes_before_the_handshake(self) -> None:
        """A session id that is right by chance does not help."""
        for body in (QueryEpoch(SESSION), confirmed(), ack(0)):
            assert "before a handshake" in reason_of(Bench().hear(body))

    def test_what_a_master_says_is_nothing_that_a_slave_says(self) -> None:
        """Types 2, 4 and 6 go the other way."""
        pages = ReturnEpoch(SESSION, 0, 0, 0, EpochsFlag(0), ())
        data = TransferData(4, 0, 0, 0, 0, SESSION, 0, DataFlag(0))
        greeting = answer(Bench().hear(shake()))
        for body in (pages, data, greeting):
            assert "from a slave" in reason_of(Bench().opened().hear(body))


class TestEpochs:
    """QUERY_EPOCH and RETURN_EPOCH."""

    def test_the_table_comes_with_ends(self) -> None:
        """The last end is the log's; a query of session 0 means the only one."""
        for query in (QueryEpoch(SESSION), QueryEpoch(0)):
            bench = Bench()
            bench.hear(shake())
            (frame,) = frames_in(bench.hear(query))

            assert frame.body == ReturnEpoch(
                SESSION,
                0,
                3000,
                3,
                EpochsFlag(0),
                ((1, 0, 1000), (2, 1000, 2500), (4, 2500, 3000)),
            )

    def test_pages_are_asked_for_one_by_one(self) -> None:
        """As often as the slave likes, within the handshake."""
        bench = Bench()
        bench.hear(shake())
        one, two = frames_in(
            bench.hear(QueryEpoch(SESSION, 0, 2), QueryEpoch(SESSION, 3, 2))
        )

        assert isinstance(one.body, ReturnEpoch)
        assert isinstance(two.body, ReturnEpoch)
        assert (one.body.flags, two.body.flags) == (EpochsFlag.MORE, EpochsFlag(0))
        assert [e[0] for e in (*one.body.entries, *two.body.entries)] == [1, 2, 4]

    def test_a_query_after_the_handshake_is_a_violation(self) -> None:
        """The state says what may come."""
        effects = Bench().opened().hear(QueryEpoch(SESSION))

        assert "received a query in state TRANSFER" in reason_of(effects)


class TestAgreeing:
    """CONFIRM_TRUNCATE, and the first data."""

    def test_the_first_data_follows_at_once_at_the_agreed_offset(self) -> None:
        """Zero bytes long: the answer does not wait for something to send."""
        bench = Bench()
        bench.hear(shake())
        effects = bench.hear(confirmed())
        (frame,) = frames_in(effects)

        assert effects[0] == OPENED
        assert frame.body == TransferData(
            EPOCH, 2500, 2800, 1500, 3000, SESSION, 0, DataFlag(0)
        )
        assert bench.connection.state is State.TRANSFER

    def test_no_agreement_is_answered_with_the_reason(self) -> None:
        """RMQ-R100: the slave learns that it has to begin anew; no session begins."""
        bench = Bench()
        bench.log = replace(LOG, min_offset=2048)
        bench.hear(shake())
        effects = bench.hear(confirmed())
        body = answer(effects)

        assert body.result is CheckResult.REJECTED
        assert body.reason == (
            "resync needed: the slave resumes at offset 1500, the master's log holds "
            "offsets 2048 to 3000"
        )
        assert [type(effect).__name__ for effect in effects] == ["Send", "CloseLink"]
        assert bench.connection.state is State.READY

    def test_a_second_confirmation_is_a_violation(self) -> None:
        """The start of a session is fixed once."""
        effects = Bench().opened().hear(confirmed())

        assert "received the confirmation of the cut in state TRANSFER" in reason_of(
            effects
        )

    def test_a_member_that_comes_empty_is_refused(self) -> None:
        """It is shrunk first; then it may be filled."""
        bench = Bench(set_view=replace(ROSTER, members=frozenset({1, 2})))
        bench.hear(shake())

        assert "its log is empty" in reason_of(bench.hear(EMPTY))

    @pytest.mark.parametrize(
        ("listed", "end", "last_epoch", "is_told"),
        [
            ({"members": frozenset({1, 2})}, 1500, 2, True),
            ({"candidates": frozenset({2})}, 1500, 2, True),
            ({"members": frozenset({1, 2})}, 2048, 2, False),
            ({"members": frozenset({1, 2})}, 0, -1, False),
            ({}, 1500, 2, False),
        ],
    )
    def test_a_member_below_the_minimum_is_refused_before_it_can_wipe(
        self, listed: dict[str, Any], end: int, last_epoch: int, is_told: bool
    ) -> None:
        """What it holds may have been counted; others learn it from our epochs."""
        bench = Bench(set_view=replace(ROSTER, **listed))
        bench.log = replace(LOG, min_offset=2048)
        hello = shake(end_offset=end, flushed_offset=end, last_epoch=last_epoch)
        effects = bench.hear(hello)

        assert is_told == isinstance(effects[-1], CloseLink)
        if is_told:
            assert reason_of(effects) == (
                "REJECTED: resync needed: the slave's log ends at offset 1500, the "
                "master's log holds offsets 2048 to 3000; the slave is in the set: "
                "remove it, then it is filled again"
            )

    def test_an_empty_slave_is_given_the_whole_log(self) -> None:
        """Blocks end where a segment or an epoch does, and are labelled by bytes."""
        bench = Bench().opened(EMPTY)
        blocks = [data_of(block) for block in bench.blocks()]

        assert b"".join(bytes(block.block) for block in blocks) == content(0, 3000)
        assert [
            (one.offset, len(one.block), one.epoch, one.epoch_start, int(one.flags))
            for one in blocks
        ] == [
            (0, 1000, 1, 0, DataFlag.EPOCH_BEGINS),
            (1000, 1048, 2, 1000, DataFlag.EPOCH_BEGINS),
            (2048, 452, 2, 1000, 0),
            (2500, 500, 4, 2500, DataFlag.EPOCH_BEGINS),
        ]
        assert {(one.end_offset, one.confirm_offset) for one in blocks} == {
            (3000, 2800)
        }

    def test_a_slave_is_asked_to_flush_while_an_append_waits_for_its_disk(self) -> None:
        """With each block, beside what else that says."""
        bench = Bench().opened(EMPTY)
        bench.log = replace(bench.log, wants_flush=True)

        assert [data_of(block).flags for block in bench.blocks()] == [
            DataFlag.EPOCH_BEGINS | DataFlag.ACK_NOW,
            DataFlag.EPOCH_BEGINS | DataFlag.ACK_NOW,
            DataFlag.ACK_NOW,
            DataFlag.EPOCH_BEGINS | DataFlag.ACK_NOW,
        ]

    @pytest.mark.parametrize(
        ("hello", "said"),
        [(SlaveFlag.LEARNER, TruncateFlag(0)), (SlaveFlag(0), TruncateFlag.LEARNER)],
    )
    def test_one_report_makes_a_learner(
        self, hello: SlaveFlag, said: TruncateFlag
    ) -> None:
        """RMQ-R203: it must never be counted by mistake."""
        bench = Bench()
        bench.hear(shake(flags=hello))
        effects = bench.hear(confirmed(flags=said))

        assert effects[0] == replace(OPENED, is_learner=True)


class TestFencing:
    """Frames of other epochs and sessions (RMQ-R273)."""

    @pytest.mark.parametrize(
        "body", [ack(1500, session_id=78), ack(1500, session_id=0)]
    )
    def test_a_frame_of_another_session_changes_nothing(self, body: Body) -> None:
        """Not even if its epoch is newer."""
        for epoch in (EPOCH, 9):
            effects = Bench().opened().hear(body, epoch=epoch)

            assert "of session" in reason_of(effects)
            assert [type(effect) for effect in effects] == [SessionEnded, CloseLink]

    @pytest.mark.parametrize(
        "body",
        [QueryEpoch(SESSION), confirmed(), ack(1500)],
        ids=["query", "truncate", "ack"],
    )
    def test_a_frame_of_an_older_epoch_changes_nothing(self, body: Body) -> None:
        """The peer is stale."""
        bench = Bench()
        bench.hear(shake())
        effects = bench.hear(body, epoch=3)

        assert reason_of(effects) == "a frame of epoch 3 in a session of epoch 4"
        assert len(effects) == 1

    def test_a_frame_of_a_newer_epoch_steps_us_down(self) -> None:
        """We are stale; the ack in it does not count."""
        effects = Bench().opened().hear(ack(1500), epoch=5)

        assert effects[0] == NewerEpochSeen(5)
        assert [type(effect) for effect in effects] == [
            NewerEpochSeen,
            SessionEnded,
            CloseLink,
        ]

    def test_our_own_next_epoch_ends_the_session(self) -> None:
        """RMQ-K.3: whatever comes in or goes out next."""
        later = replace(LOG, epochs=LOG.epochs.append(5, 3000))
        for act in ("hear", "tick", "send"):
            bench = Bench().opened()
            bench.log = later
            effects = bench.hear(ack(1500)) if act == "hear" else []
            effects += bench.tick(1) if act == "tick" else []
            assert bench.blocks() == []
            effects += bench.connection.effects()

            assert "stale epoch 4 of the session: the log is at epoch 5" in reason_of(
                effects
            )

    def test_a_log_that_ends_below_what_was_sent_is_served_no_more(self) -> None:
        """B5: a master never cuts; if it did, this link must not hide it."""
        bench = Bench().opened()
        bench.blocks()
        bench.log = replace(LOG, end_offset=2990)

        assert bench.blocks() == []
        assert "bytes up to offset 3000 were sent" in reason_of(
            bench.connection.effects()
        )

    def test_bytes_that_lost_their_epoch_are_not_sent(self) -> None:
        """RMQ-R188: nothing goes out without a label."""
        bench = Bench().opened()
        bench.log = replace(LOG, epochs=EpochTable.of([(4, 2500)]))

        assert bench.blocks() == []
        assert answer(bench.connection.effects()).reason == (
            "no epoch covers offset 1500"
        )


def test_each_outcome_is_answered() -> None:
    """None leaves the slave waiting."""
    for outcome in TruncateOutcome:
        bench = Bench()
        bench.hear(shake())

        assert frames_in(bench.hear(confirmed(outcome=outcome)))
