"""
The election policy (RMQ-R64 to RMQ-R73; B2, B3, B7).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from lib.controller.broker_set_driver import Brokers, incarnation, start

from pystore.controller.model.commands import (
    ChangeBroker,
    ChangePolicy,
    Clean,
    Elect,
    SeeEnds,
    StepDown,
    Trigger,
)
from pystore.controller.model.facts import LastHeartbeat
from pystore.controller.model.log_end import LogBegin, LogEnd
from pystore.controller.model.replies import Done, Election
from pystore.controller.model.state import LossRange
from pystore.replicaset import Member

BYTES = 2**40


def _three(*, is_java: bool = False) -> Brokers:
    """
    A set of three, all in sync, whose master 1 has died.
    """
    brokers = Brokers()
    told = None if is_java else start(1)
    _, b, c = (brokers.join(number, told) for number in (1, 2, 3))
    brokers.elect(1)
    brokers.admit(b, c)
    brokers.die(1)
    return brokers


def _elected(brokers: Brokers) -> int:
    leadership = brokers.elect().leadership
    assert leadership is not None
    return leadership.master.broker_id


def _no_master(brokers: Brokers) -> bool:
    """
    Returns whether no broker can be elected.
    """
    brokers.ask(Elect(Trigger.CONTROLLER))
    return brokers.state.master is None


def test_the_higher_epoch_wins_over_the_further_end() -> None:
    """RMQ-T5: bytes of an older epoch are worth less, however many."""
    brokers = _three()
    brokers.reach(2, 1, BYTES)
    brokers.reach(3, 2, 1)

    assert _elected(brokers) == 3


@pytest.mark.parametrize("further", [1, 2**31, 2**32, BYTES])
def test_of_one_epoch_the_further_end_wins(further: int) -> None:
    """RMQ-T6, RMQ-R70: by 64 bits."""
    brokers = _three()
    brokers.reach(2, 1, 7)
    brokers.reach(3, 1, 7 + further)

    assert _elected(brokers) == 3


def test_of_equals_the_lower_priority_number_wins() -> None:
    """RMQ-T7: a broker without a priority comes last."""
    brokers = _three()
    brokers.last_heartbeats[3] = replace(brokers.last_heartbeats[3], priority=5)
    assert _elected(brokers) == 3

    brokers = _three()
    brokers.do(ChangeBroker(3, priority=1), Done)
    assert _elected(brokers) == 3


def test_of_equals_the_preferred_one_wins() -> None:
    """Before priorities, after all that is about bytes."""
    brokers = _three()
    brokers.last_heartbeats[2] = replace(brokers.last_heartbeats[2], priority=1)
    brokers.do(ChangePolicy(preferred_id=3), Done)
    assert _elected(brokers) == 3

    brokers = _three()
    brokers.do(ChangePolicy(preferred_id=3), Done)
    brokers.reach(2, 1, 9)
    assert _elected(brokers) == 2


def test_a_resigned_broker_or_one_with_a_failing_disk_is_the_last_choice() -> None:
    """B9: with any log; but it is elected before there is no master."""
    brokers = _three()
    brokers.elect()
    brokers.admit(brokers.state.replicas[2].member)
    brokers.reach(2, 2, BYTES)
    brokers.do(StepDown(brokers.master, 2), Done)
    assert _elected(brokers) == 3

    brokers = _three()
    brokers.last_heartbeats[2] = replace(brokers.last_heartbeats[2], is_ill=True)
    brokers.die(3)
    assert _elected(brokers) == 2


def test_the_log_end_of_an_earlier_process_does_not_count() -> None:
    """RMQ-R72: its rank is that of its present log end."""
    brokers = _three()
    brokers.reach(2, 1, BYTES)
    brokers.reach(3, 1, 9)
    old = brokers.last_heartbeats[2]
    brokers.register(2, start(2, epoch=1, end=5, is_clean=True))
    brokers.last_heartbeats[2] = replace(brokers.last_heartbeats[2], position=LogEnd())
    assert _elected(brokers) == 3

    brokers = _three()
    brokers.register(2, start(2, epoch=1, end=5, is_clean=True))
    brokers.last_heartbeats[2] = old
    brokers.die(3)
    assert _no_master(brokers)


def test_a_restarted_member_that_may_have_lost_is_not_elected() -> None:
    """B2: a dead one that is whole is waited for."""
    brokers = _three()
    brokers.register(2, start(2, epoch=1, end=BYTES))
    brokers.die(3)

    assert _no_master(brokers)


def test_a_set_that_lost_power_elects_once_all_brokers_are_back() -> None:
    """B3: the longest log wins; the possible loss is recorded."""
    brokers = _three()
    brokers.reach(2, 1, 900)
    brokers.register(2, start(2, epoch=1, end=500))
    brokers.register(1, start(2, epoch=1, end=400))
    brokers.die(3)
    assert _no_master(brokers)

    brokers.register(3, start(2, epoch=1, end=450))
    assert _elected(brokers) == 2
    epoch = brokers.state.epoch
    assert (LossRange(epoch, 500, 900, "power"),) == brokers.state.losses


def test_the_election_after_a_power_cut_waits_for_the_longest_log() -> None:
    """B3: that broker may come back; otherwise only an unclean election helps."""
    brokers = _three()
    brokers.register(1, start(2, epoch=1, end=400))
    brokers.register(2, start(2, epoch=1, end=500))
    brokers.register(3, start(2, epoch=1, end=450))
    brokers.die(2)

    assert _no_master(brokers)


def test_the_only_member_is_elected_after_a_power_cut_at_once() -> None:
    """B3: no other broker has to come back."""
    brokers = Brokers()
    brokers.join(1, start(1))
    brokers.elect(1)
    a = brokers.register(1, start(2))
    brokers.elect(1)

    assert brokers.master == a


def test_bytes_received_after_a_restart_count() -> None:
    """B3: no broker was admitted; the present log end counts."""
    brokers = _three()
    for number, end in ((1, 500), (2, 400), (3, 300)):
        brokers.register(number, start(2, epoch=1, end=end))
    assert _elected(brokers) == 1
    brokers.register(1, start(3, epoch=2, end=600))
    brokers.reach(2, 2, 700)

    assert _elected(brokers) == 2


def test_a_restarted_java_broker_does_not_block_an_election() -> None:
    """B3: its next process is the same member, so its standing decides."""
    brokers = Brokers()
    brokers.join(1, start(1))
    brokers.join(2, start(1))
    brokers.elect(1)
    brokers.admit(brokers.register(2))
    brokers.register(2)
    brokers.register(1, start(2, end=5))

    assert _elected(brokers) == 1


def test_an_empty_disk_is_not_elected_after_a_power_cut() -> None:
    """What was acknowledged as flushed is on the other, and not on it."""
    brokers = _three()
    brokers.reach(2, 1, 900)
    for number, end in ((2, 0), (3, 300), (1, 400)):
        brokers.register(number, start(2, epoch=1, end=end))
    brokers.die(1, 3)
    assert "no master elected" in brokers.refused(Elect(Trigger.BROKER, 2)).reason

    brokers.register(1, start(2, epoch=1, end=400))
    assert _elected(brokers) == 1


def test_an_unclean_election_needs_a_request_and_records_the_loss() -> None:
    """RMQ-R73: by an operator or by the configuration."""
    brokers = _three()
    brokers.reach(2, 1, 900)
    brokers.do(SeeEnds(), Done)
    brokers.die(2, 3)
    d = brokers.join(4, start(1, end=100))
    command = Elect(Trigger.OPERATOR, 4)
    assert "no master elected" in brokers.refused(command).reason

    brokers.do(replace(command, is_unclean=True), Election)
    assert brokers.master == d
    assert frozenset({d}) == brokers.state.listed
    assert (LossRange(2, 100, 900, "unclean"),) == brokers.state.losses


def test_an_unclean_election_records_what_cleaned_brokers_had() -> None:
    """
    RMQ-R73: both members were cleaned after they had died; 3 was not in sync. The
    refusal before says that it is alive, and why it is not elected.
    """
    brokers = Brokers()
    _, b = brokers.join(1, start(1)), brokers.join(2, start(1))
    brokers.elect(1)
    brokers.admit(b)
    brokers.join(3, start(1))
    for broker_id, end in ((1, 100), (2, 100), (3, 90)):
        brokers.reach(broker_id, 1, end)
    brokers.die(1, 2)
    brokers.do(Clean(frozenset({1, 2}), with_living=True), Done)
    command = Elect(Trigger.OPERATOR, 3)
    reason = brokers.refused(command).reason
    assert "broker 3 is alive, but no member of the SyncStateSet" in reason
    brokers.do(replace(command, is_unclean=True), Election)

    (loss,) = brokers.state.losses
    assert (90, 100, "unclean") == (loss.start, loss.end, loss.cause)


def test_a_learner_is_never_elected() -> None:
    """RMQ-R203: not even unclean."""
    brokers = _three()
    brokers.do(ChangeBroker(2, is_learner=True), Done)
    brokers.die(3)
    brokers.is_unclean_allowed = True

    assert _no_master(brokers)


def test_members_that_are_alive_stay_candidates() -> None:
    """B7, RMQ-R63: a planned switch from 1 to 2, 2 dies, and 1 is complete."""
    brokers = _three()
    assert _elected(brokers) == 2
    brokers.die(2)

    assert _elected(brokers) == 3
    assert frozenset() == brokers.state.agreed.candidates


def test_a_java_master_has_no_candidates() -> None:
    """It would acknowledge without them, and they be elected without its records."""
    brokers = _three(is_java=True)
    assert _elected(brokers) == 2
    brokers.die(2)

    assert frozenset() == brokers.state.agreed.candidates
    assert _no_master(brokers)


def test_a_heartbeat_of_another_process_does_not_count_for_a_member() -> None:
    """B1: a process that has not registered may have lost bytes."""
    brokers = _three()
    brokers.die(3)
    brokers.last_heartbeats[2] = LastHeartbeat(incarnation(2), LogEnd(1, 9))

    assert _no_master(brokers)


def _restarted_java(brokers: Brokers, broker_id: int, end: int) -> None:
    """
    Its process told an end of 900, and died; the next one tells another.
    """
    brokers.reach(broker_id, 1, 900)
    brokers.die(broker_id)
    brokers.register(broker_id)
    brokers.reach(broker_id, 1, end)


def test_a_java_broker_with_a_shorter_log_is_not_elected() -> None:
    """
    B17: it has the identity of a member, and not its log.
    """
    for end, expected in ((900, 2), (899, 3), (0, 3)):
        brokers = _three(is_java=True)
        brokers.reach(3, 1, 800)
        _restarted_java(brokers, 2, end)
        assert expected == _elected(brokers), end


def test_a_java_broker_that_a_master_filled_again_is_elected() -> None:
    """
    Its admission says that it holds what counts, whatever it held before.
    """
    brokers = _three(is_java=True)
    _restarted_java(brokers, 2, 0)
    assert 3 == _elected(brokers)
    brokers.reach(2, 2, 500)
    brokers.admit(Member(2))
    brokers.die(3)

    assert 2 == _elected(brokers)


def test_the_only_java_member_with_a_shorter_log_is_elected_with_a_loss() -> None:
    """
    B3: after a power cut RocketMQ comes back with less. An empty log is no log of it.
    """
    for end in (700, 0):
        brokers = Brokers()
        brokers.join(1)
        brokers.elect(1)
        _restarted_java(brokers, 1, end)
        if end:
            assert 1 == _elected(brokers)
            assert LossRange(3, 700, 900, "power") == brokers.state.losses[-1]
        else:
            assert _no_master(brokers)


def _begins(brokers: Brokers, number: int, begin: LogBegin) -> None:
    heard = brokers.last_heartbeats[number]
    brokers.last_heartbeats[number] = replace(heard, begin=begin)


@pytest.mark.parametrize(
    ("floor", "begin", "is_elected"),
    [
        (0, LogBegin(100, is_filling=True), False),
        (99, LogBegin(100, is_filling=True), False),
        (100, LogBegin(100, is_filling=True), True),
        (-1, LogBegin(100, is_filling=True), False),
        (100, LogBegin(-1, is_filling=True), False),
        (0, LogBegin(100), True),
        (0, LogBegin(), True),
    ],
)
def test_a_replica_that_lacks_records_of_its_set_is_not_elected(
    floor: int, begin: LogBegin, *, is_elected: bool
) -> None:
    """B11: until the set begins where it does. Without it, another one is elected."""
    for others_live in (True, False):
        brokers = Brokers()
        _, b, c = (brokers.join(number, start(1)) for number in (1, 2, 3))
        brokers.elect(1)
        brokers.admit(b, c)
        brokers.reach(2, 1, BYTES)
        _begins(brokers, 1, LogBegin(floor))
        _begins(brokers, 2, begin)
        brokers.die(1)
        if not others_live:
            brokers.die(3)
        if is_elected:
            assert 2 == _elected(brokers)
        elif others_live:
            assert 3 == _elected(brokers)
        else:
            assert _no_master(brokers)


@pytest.mark.parametrize("is_over", [False, True])
@pytest.mark.parametrize("floor", [0, 60])
def test_an_unclean_election_records_what_is_missing_below_the_begin(
    floor: int, *, is_over: bool
) -> None:
    """
    B11: also once the end of the mastership is recorded; and what is missing above the
    end, as always (RMQ-R73).
    """
    brokers = Brokers()
    _, b = (brokers.join(number, start(1)) for number in (1, 2))
    brokers.elect(1)
    brokers.admit(b)
    brokers.reach(1, 1, 500)
    _begins(brokers, 1, LogBegin(floor))
    brokers.do(SeeEnds(), Done)
    brokers.die(1)
    brokers.reach(2, 1, 400)
    _begins(brokers, 2, LogBegin(100, is_filling=True))
    if is_over:
        brokers.do(Elect(Trigger.CONTROLLER), Election)
        assert brokers.state.master is None
    brokers.do(Elect(Trigger.OPERATOR, 2, is_unclean=True), Election)
    ranges = [(one.start, one.end) for one in brokers.state.losses]
    assert [(floor, 100), (400, 500)] == ranges


def _beside_a_filling_one(
    whole: LogEnd, filling: LogEnd, *, promised: int = 2
) -> Brokers:
    """
    The whole member 1, which was the master, has restarted, and may have lost its end;
    the filling member 2 lived on, and knows that the mastership of epoch 1 is over.
    """
    brokers = Brokers()
    _, b = (brokers.join(number, start(1)) for number in (1, 2))
    brokers.elect(1)
    brokers.admit(b)
    brokers.reach(1, 1, 900)
    brokers.do(SeeEnds(), Done)
    told = start(2, end=whole.end, epoch=whole.epoch)
    brokers.register(1, replace(told, boot_id="another", is_clean=False))
    _fills(brokers, 2, filling, promised)
    assert brokers.state.master is None
    assert brokers.state.epoch == 2
    return brokers


def _fills(brokers: Brokers, number: int, end: LogEnd, promised: int) -> None:
    brokers.last_heartbeats[number] = replace(
        brokers.last_heartbeats[number],
        position=end,
        begin=LogBegin(100, is_filling=True),
        promised_epoch=promised,
    )


@pytest.mark.parametrize(
    ("whole", "filling", "promised", "is_elected"),
    [
        (LogEnd(1, 700), LogEnd(1, 700), 2, True),
        (LogEnd(1, 701), LogEnd(1, 700), 2, True),
        (LogEnd(1, 700), LogEnd(0, 900), 2, True),
        (LogEnd(1, 700), LogEnd(1, 700), 3, True),
        (LogEnd(1, 699), LogEnd(1, 700), 2, False),
        (LogEnd(0, 900), LogEnd(1, 700), 2, False),
        (LogEnd(1, 700), LogEnd(1, 700), 1, False),
        (LogEnd(1, 700), LogEnd(1, 700), -1, False),
        (LogEnd(1, 700), LogEnd(), 2, False),
    ],
)
def test_a_restarted_member_that_lacks_nothing_of_a_filling_one_is_elected(
    whole: LogEnd, filling: LogEnd, promised: int, *, is_elected: bool
) -> None:
    """
    B2, B11: the filling member holds all that was acknowledged, and acknowledges
    nothing more of an older master. So the end of its log is the proof. It stays a
    candidate, and nothing is lost.
    """
    brokers = _beside_a_filling_one(whole, filling, promised=promised)
    if not is_elected:
        assert _no_master(brokers)
        assert brokers.state.epoch == 2
        return
    assert 1 == _elected(brokers)
    assert () == brokers.state.losses
    assert {2} == {one.broker_id for one in brokers.state.agreed.candidates}


def test_a_filling_member_proves_nothing_before_the_mastership_is_over() -> None:
    """
    A master that is silent may live, and get the acks of the filling member.
    """
    brokers = Brokers()
    _, b, c = (brokers.join(number, start(1)) for number in (1, 2, 3))
    brokers.elect(1)
    brokers.admit(b, c)
    brokers.reach(3, 1, 500)
    told = start(2, end=700, epoch=1)
    brokers.register(3, replace(told, boot_id="another"))
    _fills(brokers, 2, LogEnd(1, 700), 1)
    brokers.die(1)

    assert _no_master(brokers)
    assert _no_master(brokers)
    _fills(brokers, 2, LogEnd(1, 701), 2)
    assert _no_master(brokers)
    _fills(brokers, 2, LogEnd(1, 700), 2)
    assert 3 == _elected(brokers)


@pytest.mark.parametrize(
    "spoil", ["restarted", "dead", "unlisted", "another process", "not the whole one"]
)
def test_a_filling_one_that_may_lack_something_proves_nothing(spoil: str) -> None:
    """
    B1, B2: only a sound process that the SyncStateSet lists holds all that was
    acknowledged.
    """
    ends = LogEnd(1, 700), LogEnd(1, 700)
    brokers = _beside_a_filling_one(*ends)
    heard = brokers.last_heartbeats[2]
    if spoil == "restarted":
        told = start(3, end=700, epoch=1, begin=heard.begin)
        brokers.register(2, replace(told, boot_id="another"))
        _fills(brokers, 2, ends[1], 2)
        # All have restarted: then it is B3, with a loss that is recorded.
        assert 1 == _elected(brokers)
        assert (LossRange(3, 700, 900, "power"),) == brokers.state.losses
        return
    if spoil == "dead":
        brokers.die(2)
    elif spoil == "unlisted":
        (first,) = (one for one in brokers.state.listed if one.broker_id == 1)
        agreed = replace(brokers.state.agreed, members=frozenset({first}))
        brokers.state = replace(brokers.state, agreed=agreed)
        # A sole member is elected for that reason, with a loss that is recorded.
        assert 1 == _elected(brokers)
        assert (LossRange(3, 700, 900, "power"),) == brokers.state.losses
        return
    elif spoil == "another process":
        brokers.last_heartbeats[2] = replace(heard, incarnation=incarnation(7))
    else:
        _begins(brokers, 1, LogBegin(50, is_filling=True))
    assert _no_master(brokers)


def test_a_refusal_says_what_a_restarted_member_lacks_of_a_filling_one() -> None:
    """
    What an operator can do without any loss.
    """
    brokers = _beside_a_filling_one(LogEnd(1, 699), LogEnd(1, 700))
    reason = brokers.refused(Elect(Trigger.BROKER, 1)).reason
    assert (
        "broker 1 has the older records of the set, and its log ends at 699" in reason
    )
    assert (
        "broker 2, which is filling, may have acknowledged records up to 700" in reason
    )

    brokers = _beside_a_filling_one(LogEnd(1, 700), LogEnd(1, 700), promised=1)
    reason = brokers.refused(Elect(Trigger.BROKER, 1)).reason
    assert "broker 2 has to learn that the mastership before is over" in reason
