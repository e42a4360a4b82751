"""
When a replica may empty its store: the newest set that it knows decides, at the moment
of the wipe.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.ha.master_fixture import data_of
from lib.ha.replica_fixture import WAIT_MS, ReplicaStage
from lib.store.stores import message

from pystore.ha.decision import Decision
from pystore.ha.insync.ack import Ack
from pystore.ha.insync.config import SetRules
from pystore.ha.master.lease import UNLEASED
from pystore.ha.replica import Replica
from pystore.ha.role import Role
from pystore.replicaset import AgreedSet
from pystore.store.deletion import delete_before


@pytest.fixture
def stage(tmp_path: Path) -> ReplicaStage:
    """No replica has started yet."""
    return ReplicaStage(tmp_path)


def begin_other_history(stage: ReplicaStage, port: int, epoch: int) -> Replica:
    """
    Starts broker 3 as a master of that epoch at that port; its log has nothing in
    common with the log of the set.
    """
    # A slave that found it in the older epoch would end that mastership.
    lead_alone(stage, stage.start(3), epoch - 1).close()
    return lead_alone(stage, stage.start(3, port=port), epoch)


def lead_alone(stage: ReplicaStage, other: Replica, epoch: int) -> Replica:
    """
    A replica is master of a set of its own for that epoch, and appends.
    """
    alone = AgreedSet(frozenset({other.me}), epoch)
    other.decided(Decision(epoch, other.me, "", alone, UNLEASED))
    stage.wait_for(other, Role.MASTER, epoch)
    other.append([message(90), message(91), message(92)], Ack.LEADER)
    return other


def test_a_slave_that_became_a_member_later_is_not_wiped(stage: ReplicaStage) -> None:
    """
    B15: it was not listed when it began to follow. Then another process serves at the
    address of the master, with the same epoch and another epoch table.
    """
    with stage:
        first, second = stage.start(1), stage.start(2)
        address = stage.elect(3, first).address
        stage.controller.wait_for({1, 2})
        end = first.append([message(1), message(2)], Ack.ALL, WAIT_MS).appended.end
        second.decided(Decision(3, first.me, address, stage.controller.agreed))
        first.close()
        begin_other_history(stage, int(address.rpartition(":")[2]), 3)
        stage.wait_until(
            second,
            lambda stands: (
                "resync needed" in stands.problem
                or second.log.log().received_offset < end
            ),
        )

        assert end == second.log.log().received_offset
        assert [(3, 0)] == second.log.log().epochs.pairs()


def test_a_set_that_the_replica_has_not_taken_yet_counts_already(
    stage: ReplicaStage,
) -> None:
    """
    B15: a decision counts from the moment at which it was handed over, although the
    thread of roles may be busy.
    """
    with stage:
        first, second = stage.start(1), stage.start(2)
        outside = AgreedSet(frozenset({first.me}), 7)
        second.decided(Decision(3, first.me, "127.0.0.1:1", outside))
        assert second.may_wipe()
        listed = AgreedSet(frozenset({first.me, second.me}), 8)
        second.decided(Decision(3, first.me, "127.0.0.1:1", listed))
        assert not second.may_wipe()
        # Older sets, and sets of older epochs, are late.
        second.decided(Decision(3, first.me, "127.0.0.1:1", outside))
        second.decided(Decision(2, first.me, "127.0.0.1:1", AgreedSet(set_epoch=99)))
        assert not second.may_wipe()
        # The set of a newer epoch is not known yet.
        second.decided(Decision(4))
        assert not second.may_wipe()


def test_a_removed_candidate_that_retention_passed_comes_back_by_itself(
    tmp_path: Path,
) -> None:
    """
    B15: it was a candidate when it began to follow. The set without it is told later,
    and it is filled again without a restart.
    """
    rules = SetRules(lag_ms_max=200, first_check_ms=20, check_ms=20)
    with ReplicaStage(tmp_path, rules=rules) as stage:
        first, second = stage.start(1), stage.start(2)
        stage.elect(1, first)
        stage.controller.wait_for({1, 2})
        first.append(message(1), Ack.ALL, WAIT_MS)
        second.close()
        candidates = frozenset({second.me})
        address = stage.elect(2, first).address
        elected = AgreedSet(frozenset({first.me}), 3, candidates)
        stage.controller.wait_for({1})
        for number in range(2000):
            first.append(message(number), Ack.LEADER)
        assert delete_before(first.log.writer, first.log.log().end_offset)

        second = stage.start(2)
        second.decided(Decision(2, first.me, address, elected))
        stage.wait_until(second, lambda stands: "resync needed" in stands.problem)
        assert second.standing().role is Role.FOLLOWING
        second.decided(Decision(2, first.me, address, stage.controller.agreed))
        stage.controller.wait_for({1, 2})
        assert first.append(message(1), Ack.ALL, WAIT_MS).is_reached

    assert data_of(stage.store(1)) == data_of(stage.store(2))
