"""
Replicas that change roles as a controller says: real stores, real links, one process.
"""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import numpy as np
import pytest
from lib.ha.master_fixture import data_of
from lib.ha.replica_fixture import WAIT_MS, ReplicaStage
from lib.store.stores import message

from pystore.bindings.ffi import POSITION_DTYPE
from pystore.clocks import boottime_ns, wall_ms
from pystore.errors import FencedError, InvalidError, UnavailableError
from pystore.ha.decision import Decision
from pystore.ha.insync.ack import Ack, AckOutcome
from pystore.ha.insync.config import SetRules
from pystore.ha.master.lease import NO_LEASE, UNLEASED, lease_from
from pystore.ha.replica import Replica
from pystore.ha.role import Role
from pystore.replicaset import AgreedSet, Incarnation, Member


@pytest.fixture
def stage(tmp_path: Path) -> ReplicaStage:
    """No replica has started yet."""
    return ReplicaStage(tmp_path)


def pair(stage: ReplicaStage, epoch: int = 1) -> tuple[Replica, Replica]:
    """
    A master and a slave that is in the set.
    """
    first, second = stage.start(1), stage.start(2)
    stage.elect(epoch, first)
    stage.controller.wait_for({1, 2})
    return first, second


def test_a_master_appends_with_all_and_says_what_was_reached(
    stage: ReplicaStage,
) -> None:
    """Promise and outcome in one answer, and the slave has the bytes."""
    with stage:
        first, second = pair(stage)
        done = first.append([message(1), message(2)], Ack.ALL, WAIT_MS)

        assert done.is_reached
        assert done.settled.promise == "all"
        assert done.settled.received_by == {1, 2}
        assert done.appended.count == 2
        assert second.log.log().received_offset == done.appended.end
        assert second.standing().gap_bytes == 0

    assert data_of(stage.store(1)) == data_of(stage.store(2))


def test_an_append_fills_the_places_of_its_records(stage: ReplicaStage) -> None:
    """Each record is read at its place, in the log and in its queue."""
    with stage:
        first, _ = pair(stage)
        given = [message(number) for number in range(3)]
        positions = np.empty(3, POSITION_DTYPE)
        future = first.submit(given, Ack.ALL, positions)
        assert future.wait(WAIT_MS).is_reached

        for one, (offset, queue_offset) in zip(given, positions.tolist(), strict=True):
            record = first.log.store.log.read(offset)
            assert (one.body, queue_offset) == (record.body, record.queue_offset)
            place = (one.topic, one.queue_id, queue_offset)
            assert offset == first.log.store.read(*place).offset


def test_roles_are_exchanged_and_the_old_master_is_cut(stage: ReplicaStage) -> None:
    """RMQ-R160, B5: bytes of the old one alone are cut; all serve the new epoch."""
    with stage:
        first, second = pair(stage)
        kept = first.append(message(1), Ack.ALL, WAIT_MS).appended.end
        second.decided(Decision(2))
        stage.wait_for(second, Role.IDLE, 2)
        # No slave follows: it is in the log, and reaches no slave.
        lost = first.append(message(2), Ack.LEADER).appended.end
        stage.elect(2, second)
        stage.wait_for(first, Role.FOLLOWING, 2)
        stage.controller.wait_for({1, 2})
        done = second.append(message(3), Ack.ALL, WAIT_MS)

        assert done.is_reached
        assert (2, kept) in first.log.log().epochs.pairs()
        assert first.log.log().epochs == second.log.log().epochs
        assert done.appended.offset == kept < lost
        with pytest.raises(FencedError, match="master of epoch 2 is broker 2"):
            first.append(message(4))
        told = stage.controller.resigned.get(timeout=WAIT_MS / 1000)
        assert told == (1, "the controller decided on epoch 2")

    assert data_of(stage.store(1)) == data_of(stage.store(2))


def test_a_master_is_master_again_after_it_followed(stage: ReplicaStage) -> None:
    """There and back, over one opening of the store: nothing of a role is left."""
    with stage:
        first, second = pair(stage)
        for epoch, master in ((2, second), (3, first), (4, second), (5, first)):
            stage.elect(epoch, master)
            stage.controller.wait_for({1, 2})
            assert master.append(message(epoch), Ack.ALL, WAIT_MS).is_reached
        assert [epoch for epoch, _ in first.log.log().epochs.pairs()] == [2, 3, 4, 5]

    assert data_of(stage.store(1)) == data_of(stage.store(2))


def test_a_master_that_cuts_under_a_reader_is_a_member_again(
    stage: ReplicaStage,
) -> None:
    """
    B14: a reader of the process holds records that nobody else got. They are cut, the
    reader's view keeps them, and the incarnation that the set knows stays.
    """
    with stage:
        first = stage.start(1)
        stage.elect(1, first)
        for number in range(30):
            first.append(message(number), Ack.LEADER)
        second = stage.start(2)
        stage.controller.agreed = AgreedSet(frozenset({second.me}), 9)
        held = first.log.store.log.reader.acquire(0, 4000)
        shown = bytes(held)
        me, incarnation = first.me, first.log.incarnation

        stage.elect(2, second)
        stage.controller.wait_for({1, 2})
        assert second.append(message(99), Ack.ALL, WAIT_MS).is_reached

        assert shown == bytes(held)
        assert (me, incarnation) == (first.me, first.log.incarnation)
        assert me.incarnation == incarnation
        assert 0 < first.log.log().end_offset < len(shown)
    assert shown == bytes(held)
    assert data_of(stage.store(1)) == data_of(stage.store(2))


def test_a_stale_decision_changes_nothing(stage: ReplicaStage) -> None:
    """RMQ-R153: controllers repeat themselves, and some of it arrives late."""
    with stage:
        first, second = pair(stage, 4)
        links = first.standing()
        for epoch in (4, 3):
            first.decided(Decision(epoch, second.me, "127.0.0.1:1"))
            second.decided(Decision(epoch, second.me, "", AgreedSet(frozenset(), 9)))
            first.decided(Decision(epoch))
        first.decided(Decision(4, first.me, "127.0.0.1:1"))
        assert first.append(message(1), Ack.ALL, WAIT_MS).is_reached
        stage.wait_for(second, Role.FOLLOWING, 4)

        assert first.standing().role is Role.MASTER
        assert first.standing().address == links.address


def test_the_newest_decision_wins_while_the_old_role_ends(stage: ReplicaStage) -> None:
    """RMQ-R160: of many in a row only what the last one says is there at the end."""
    with stage:
        first, second = pair(stage)
        for epoch in range(2, 20):
            first.decided(Decision(epoch, second.me, f"127.0.0.1:{epoch}"))
        stage.elect(20, first)
        stage.controller.wait_for({1, 2})

        assert first.append(message(1), Ack.ALL, WAIT_MS).is_reached
        assert first.log.log().epochs.last_epoch == 20


def test_a_newer_epoch_that_a_slave_knows_ends_no_mastership_unconfirmed(
    stage: ReplicaStage,
) -> None:
    """B16: the controller is asked, and its decision ends it."""
    with stage:
        first, second = pair(stage)
        address = first.standing().address
        # A new master that the old one has not heard of; the slave tells it.
        second.decided(Decision(7, Member(3), address))
        assert stage.controller.told_epochs.get(timeout=WAIT_MS / 1000) == 7
        assert first.append(message(1), Ack.LEADER).is_reached

        first.decided(Decision(7, Member(3), ""))
        assert stage.controller.resigned.get(timeout=WAIT_MS / 1000) == (
            1,
            "the controller decided on epoch 7",
        )
        with pytest.raises(FencedError, match="not the master"):
            first.append(message(1))
        stage.elect(8, first)


def test_without_a_lease_the_core_refuses_what_the_master_decides_alone(
    stage: ReplicaStage,
) -> None:
    """B8, C1, C3: before a byte is written; `all` goes on."""
    with stage:
        first, _ = stage.start(1), stage.start(2)
        stage.elect(1, first, NO_LEASE)
        stage.controller.wait_for({1, 2})
        end = first.log.log().end_offset
        for ack in (Ack.LEADER, Ack.LEADER_SYNCED):
            with pytest.raises(FencedError, match="epoch 1 has run out"):
                first.append(message(1), ack)
            with pytest.raises(FencedError, match="epoch 1 has run out"):
                first.submit(message(1), ack)
        assert first.log.log().end_offset == end
        assert first.append(message(2), Ack.ALL, WAIT_MS).is_reached
        assert 0 == first.standing().lease_left_ms

        first.leased(1, lease_from(boottime_ns(), wall_ms(), 3_600_000))
        granted = first.wait_for(lambda stands: (stands.lease_left_ms or 0) > 0)
        assert 0 < (granted.lease_left_ms or 0) <= 3_600_000
        assert first.append(message(3), Ack.LEADER).is_reached
        assert first.append(message(3), Ack.LEADER_SYNCED).is_reached

        first.leased(1, NO_LEASE)
        first.wait_for(lambda stands: stands.lease_left_ms == 0)
        with pytest.raises(FencedError, match="has run out"):
            first.append(message(4), Ack.LEADER)


def test_a_lease_runs_out_by_itself(stage: ReplicaStage) -> None:
    """C1: without a message."""
    with stage:
        first = stage.start(1)
        sent_ns = boottime_ns() - 9_900_000_000
        stage.elect(1, first, lease_from(sent_ns, wall_ms() - 9_900, 10_000))
        stage.wait_until(first, lambda stands: stands.lease_left_ms == 0)
        with pytest.raises(FencedError, match="has run out"):
            first.append(message(1), Ack.LEADER)


def test_a_promise_that_cannot_be_kept_is_refused_before_the_append(
    tmp_path: Path,
) -> None:
    """RMQ-R206: nothing is in the log."""
    with ReplicaStage(tmp_path, rules=SetRules(min_in_sync=2)) as stage:
        first = stage.start(1)
        stage.elect(1, first)
        with pytest.raises(
            UnavailableError, match="has 1 replicas, and minInSyncReplicas is 2"
        ):
            first.append(message(1), Ack.ALL)

        assert first.log.log().end_offset == 0
        assert first.append(message(1), Ack.LEADER).is_reached


def test_an_append_that_outlives_its_mastership_is_fenced(stage: ReplicaStage) -> None:
    """B8: its record may be gone, and the answer says so."""
    with stage:
        first = stage.start(1)
        # A candidate that never comes holds every `all` back (B7).
        absent = frozenset({Member(3, Incarnation(1, bytes(16)))})
        stage.controller.agreed = AgreedSet(frozenset(), 0, absent)
        stage.elect(1, first)
        outcomes: list[AckOutcome] = []

        def append() -> None:
            done = first.append(message(1), Ack.ALL, WAIT_MS)
            outcomes.append(done.settled.outcome)

        waiting = threading.Thread(target=append)
        waiting.start()
        stage.wait_until(first, lambda stands: bool(stands.gap_bytes))
        first.decided(Decision(2))
        waiting.join(WAIT_MS / 1000)

        assert outcomes == [AckOutcome.FENCED]


def test_a_candidate_that_the_controller_does_not_hear_holds_no_ack_for_long(
    stage: ReplicaStage,
) -> None:
    """B12: it reaches the master and holds every record; it leaves the set."""
    with stage:
        first, third = stage.start(1), stage.start(3)
        stage.controller.unheard = frozenset({3})
        candidates = frozenset({third.me})
        stage.controller.agreed = AgreedSet(frozenset(), 0, candidates)
        stage.elect(1, first)
        done = first.append(message(1), Ack.ALL, WAIT_MS)

        assert done.is_reached
        assert frozenset() == first.standing().agreed.candidates
        assert third.log.log().received_offset == done.appended.end


def test_a_member_that_the_controller_does_not_hear_stays_while_it_acks(
    stage: ReplicaStage,
) -> None:
    """B12: it may be one of two that have the records."""
    with stage:
        first, second = pair(stage)
        stage.controller.unheard = frozenset({2, 3})
        third = stage.start(3)
        told = Decision(1, first.me, first.standing().address, stage.controller.agreed)
        third.decided(told)
        stage.wait_until(third, lambda stands: stands.gap_bytes == 0)
        for number in range(20):
            done = first.append(message(number), Ack.ALL, WAIT_MS)
            assert done.is_reached

        assert {first.me, second.me} == first.standing().agreed.members


def test_a_candidate_that_never_comes_holds_acks_for_as_long_as_a_member_may_lag(
    tmp_path: Path,
) -> None:
    """B12: counted from the beginning of the mastership, not from a check of lags."""
    rules = SetRules(lag_ms_max=200, first_check_ms=60_000)
    with ReplicaStage(tmp_path, rules=rules) as stage:
        first = stage.start(1)
        absent = frozenset({Member(3, Incarnation(1, bytes(16)))})
        stage.controller.agreed = AgreedSet(frozenset(), 0, absent)
        stage.elect(1, first)

        assert first.append(message(1), Ack.ALL, 20_000).is_reached


def test_one_thread_has_many_appends_under_way(stage: ReplicaStage) -> None:
    """Each is checked when it is made, and says later what it reached."""
    with stage:
        first, second = pair(stage)
        futures = [first.submit(message(number), Ack.ALL) for number in range(50)]
        futures.append(first.submit([message(50), message(51)], Ack.ALL_SYNCED))
        settled = first.wait_all(futures, WAIT_MS)

        assert [{1, 2}] * 51 == [one.received_by for one in settled]
        assert settled[-1].promise == "all-synced"
        assert settled[-1].flushed_by == {1, 2}
        assert all(one.is_reached for one in settled)
        assert futures[-1].appended.count == 2
        assert second.log.log().received_offset == futures[-1].appended.end


def test_a_ticket_speaks_of_the_mastership_that_made_it(stage: ReplicaStage) -> None:
    """B8: whatever another one writes where its record was, it does not acknowledge."""
    with stage:
        first, second = pair(stage)
        kept = first.submit(message(1), Ack.ALL)
        assert kept.wait(WAIT_MS).is_reached
        second.decided(Decision(2))
        stage.wait_for(second, Role.IDLE, 2)
        # The set shrinks meanwhile or not: no other replica has this one.
        lost = first.submit(message(2), Ack.LEADER)
        stage.elect(2, second)
        stage.wait_for(first, Role.FOLLOWING, 2)
        with pytest.raises(FencedError, match="master of epoch 2 is broker 2"):
            first.submit(message(4))
        stage.controller.wait_for({1, 2})
        over = second.submit([message(3), message(4)], Ack.ALL)
        assert over.wait(WAIT_MS).is_reached

        assert lost.appended.offset == over.appended.offset
        assert [AckOutcome.REACHED, AckOutcome.FENCED] == [
            one.outcome for one in first.wait_all([kept, lost])
        ]


def test_open_tickets_end_with_their_mastership(stage: ReplicaStage) -> None:
    """B8: waiters get the result at once, and so do later waits."""
    with stage:
        first = stage.start(1)
        # A candidate that never comes holds every `all` back (B7).
        absent = frozenset({Member(3, Incarnation(1, bytes(16)))})
        stage.controller.agreed = AgreedSet(frozenset(), 0, absent)
        stage.elect(1, first)
        futures = [first.submit(message(number)) for number in range(3)]
        answers: list[AckOutcome] = []

        def wait() -> None:
            answers.extend(one.outcome for one in first.wait_all(futures, WAIT_MS))

        waiting = threading.Thread(target=wait)
        waiting.start()
        service = first._service
        assert service is not None
        while not service.monitor.appends.waiting:
            service.monitor.rest(1)
        first.decided(Decision(2))
        waiting.join(WAIT_MS / 1000)
        assert answers == [AckOutcome.FENCED] * 3

    assert [AckOutcome.FENCED] * 3 == [one.wait().outcome for one in futures]


def test_a_restarted_replica_obeys_no_older_epoch(stage: ReplicaStage) -> None:
    """B6, RMQ-R152: nor is it the master that it was before."""
    with stage:
        first = stage.start(1)
        stage.elect(3, first)
        first.append(message(1), Ack.LEADER)
        first.close()
        again = stage.start(1)
        again.decided(Decision(2, again.me, "", AgreedSet(frozenset({again.me}), 9)))
        again.decided(Decision(3, first.me, "127.0.0.1:1"))
        again.decided(Decision(4))
        stage.wait_for(again, Role.IDLE, 4)

        assert [3] == [epoch for epoch, _ in again.log.log().epochs.pairs()]
        stage.elect(5, again)


def test_an_address_that_is_taken_is_tried_again(stage: ReplicaStage) -> None:
    """RMQ-R160: a switch that failed half-way is not over."""
    with stage:
        first, second = stage.start(1), stage.start(2)
        port = int(stage.elect(1, first).address.rpartition(":")[2])
        third = stage.start(3, port=port)
        agreed = AgreedSet(frozenset({third.me}), 9)
        third.decided(Decision(2, third.me, "", agreed, UNLEASED))
        stage.wait_until(third, lambda stands: "cannot listen" in stands.problem)
        assert third.standing().role is Role.PENDING
        first.decided(Decision(2))
        stage.wait_for(third, Role.MASTER, 2)

        assert third.append(message(1), Ack.LEADER).is_reached
        assert third.standing().problem == ""
        assert second.standing().role is Role.FOLLOWING


def test_what_cannot_begin_is_resigned(stage: ReplicaStage) -> None:
    """A set without us is another mastership's: trying again is of no use."""
    with stage:
        first = stage.start(1)
        agreed = AgreedSet(frozenset({Member(9)}), 1)
        first.decided(Decision(1, first.me, "", agreed))
        stage.wait_for(first, Role.RESIGNED, 1)

        epoch, reason = stage.controller.resigned.get(timeout=WAIT_MS / 1000)
        assert (epoch, "set" in reason) == (1, True)


@pytest.mark.parametrize("is_alone", [False, True], ids=["with another", "alone"])
def test_a_master_whose_port_is_taken_resigns_only_for_another(
    stage: ReplicaStage, is_alone: bool
) -> None:
    """B13: after the limit; alone it stays, and begins when the port is free."""
    with stage, socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        rules = SetRules(resign_ms=100)
        first = stage.start(1, port=port, rules=rules)
        others = [] if is_alone else [Member(2)]
        agreed = AgreedSet(frozenset({first.me}), 1, frozenset(others))
        first.decided(Decision(1, first.me, "", agreed))
        stands = first.wait_for(lambda it: bool(it.problem), WAIT_MS)
        assert f"cannot listen on 127.0.0.1:{port}" in stands.problem
        assert stands.problem == first.serving_problem()
        if not is_alone:
            stage.wait_for(first, Role.RESIGNED, 1)
            epoch, reason = stage.controller.resigned.get(timeout=WAIT_MS / 1000)
            assert (1, True) == (epoch, "cannot listen" in reason)
            return
        first.wait_for(lambda it: it.role is not Role.PENDING, 300)
        assert Role.PENDING is first.standing().role
        server.close()
        stage.wait_for(first, Role.MASTER, 1)
        assert "" == first.serving_problem()


def test_a_master_whose_disk_failed_resigns(stage: ReplicaStage) -> None:
    """B9: the thread that keeps time notices it, as another member is well."""
    with stage:
        first, _ = pair(stage)
        service = first._service
        assert service is not None
        # No write-back fails on demand: the monitor gets an old failure.
        service.monitor._in_sync.poisoned(0)
        service.monitor.notifier.notify()
        stage.wait_for(first, Role.RESIGNED, 1)

        reason = stage.controller.resigned.get(timeout=WAIT_MS / 1000)
        assert 1 == reason[0]
        assert "a write-back failed" in reason[1]
        assert reason[1].endswith("; another member is well")


def test_a_close_gives_the_mastership_up(stage: ReplicaStage) -> None:
    """So the next one need not wait for the lease (C3)."""
    with stage:
        first, second = pair(stage)
        first.append(message(1), Ack.LEADER)
        first.close(WAIT_MS)

        assert stage.controller.resigned.get_nowait() == (1, "the master shuts down")
        assert second.log.log().received_offset > 0
        assert first.standing().role is Role.SHUTDOWN
        first.decided(Decision(9))
        first.close()

    assert data_of(stage.store(1)) == data_of(stage.store(2))


def test_an_address_that_is_none_is_told(stage: ReplicaStage) -> None:
    """And the next decision goes on as if nothing had been."""
    with stage:
        first, second = stage.start(1), stage.start(2)
        second.decided(Decision(1, first.me, "nowhere"))
        standing = stage.wait_for(second, Role.IDLE, 1)
        assert "'nowhere' is no HOST:PORT" in standing.problem
        stage.elect(1, first)
        stage.wait_for(second, Role.FOLLOWING, 1)


def test_a_message_that_is_none_is_no_append(stage: ReplicaStage) -> None:
    """The core's own refusals come through."""
    with stage:
        first = stage.start(1)
        stage.elect(1, first)
        with pytest.raises(InvalidError):
            first.append([], Ack.LEADER)
