"""
The registration of a broker process (RMQ-R38 to RMQ-R44, RMQ-R152, B1).
"""

from __future__ import annotations

import pytest
from lib.controller.broker_set_driver import Brokers, start

from pystore.controller.model.commands import ApplyId, Clean, Recovery, Register
from pystore.controller.model.replica import LogStanding
from pystore.controller.model.replies import Applied, RegistrationReply
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import Member


def _pair() -> tuple[Brokers, Member, Member]:
    brokers = Brokers()
    a, b = brokers.join(1, start(1)), brokers.join(2, start(1))
    brokers.elect(1)
    brokers.admit(b)
    return brokers, a, b


def test_an_unknown_broker_has_to_apply_first() -> None:
    """RMQ-R38: neither set nor id is made by a registration."""
    brokers = Brokers()
    assert (
        brokers.code(Register(1, "a"))
        is ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    )
    brokers.do(ApplyId(1, "a;1"), Applied)

    assert (
        brokers.code(Register(2, "a"))
        is ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    )


@pytest.mark.parametrize("address", ["", "nonsense", "host:0", "host:99999", ":1"])
def test_a_broker_without_an_address_is_refused(address: str) -> None:
    """
    No client and no slave would reach a master there.
    """
    brokers, *_ = _pair()
    refusal = brokers.refused(Register(2, address, start(2)))

    assert ResponseCode.CONTROLLER_INVALID_REQUEST is refusal.code
    assert "broker 2 cannot be reached" in refusal.reason


def test_another_address_keeps_everything_else() -> None:
    """RMQ-R42: it is the same process, and it stays master and member."""
    brokers, a, _ = _pair()
    epoch = brokers.state.epoch
    brokers.do(Register(1, "elsewhere:1", start(1)), RegistrationReply)

    assert brokers.master == a
    assert brokers.state.epoch == epoch
    assert brokers.state.replicas[0].address == "elsewhere:1"


def test_registering_again_changes_nothing() -> None:
    """The answer was lost, and it asks once more (RMQ-R39)."""
    brokers, *_ = _pair()
    before = brokers.state
    brokers.do(Register(2, "host:2", start(1)), RegistrationReply)

    assert brokers.state == before


def test_a_master_that_is_dead_is_not_named() -> None:
    """RMQ-R40: as if there were none."""
    brokers, a, _ = _pair()
    told = brokers.do(Register(2, "host:2", start(1)), RegistrationReply)
    assert told.leadership is not None
    assert told.leadership.master == a
    brokers.die(1)

    assert (
        brokers.do(Register(2, "host:2", start(1)), RegistrationReply).leadership
        is None
    )


def test_a_restarted_master_is_master_no_more() -> None:
    """B1, RMQ-R152: it may be elected again, in a higher epoch."""
    brokers, *_ = _pair()
    a = brokers.register(1, start(2, is_clean=True))

    assert (None, 2) == (brokers.state.master, brokers.state.epoch)
    brokers.die(2)
    assert brokers.elect(1).leadership is not None
    assert (a, 3) == (brokers.master, brokers.state.epoch)


def test_a_java_master_that_registers_has_restarted() -> None:
    """RMQ-R152: RocketMQ would let it go on in its old epoch, with a start moved."""
    brokers = Brokers()
    brokers.join(1)
    brokers.elect(1)
    brokers.register(1)

    assert (None, 2) == (brokers.state.master, brokers.state.epoch)


def test_a_sound_restart_stays_in_the_set_as_its_new_process() -> None:
    """B2: the SyncStateSet epoch rises, so that the master notices it (RMQ-R118)."""
    brokers, a, _ = _pair()
    version = brokers.state.agreed.set_epoch
    b = brokers.register(2, start(2, is_clean=True))

    assert frozenset({a, b}) == brokers.state.agreed.members
    assert brokers.state.agreed.set_epoch == version + 1


def test_a_restart_that_may_have_lost_stays_listed_as_what_it_was() -> None:
    """The master removes or admits it; it is not elected."""
    brokers, a, b = _pair()
    brokers.register(2, start(2))

    assert frozenset({a, b}) == brokers.state.agreed.members
    assert brokers.state.replicas[1].standing is LogStanding.RESTARTED


@pytest.mark.parametrize("of", [start(2), start(9), start(2, bits=7), None])
@pytest.mark.parametrize("address", ["host:1", "elsewhere:1"])
def test_a_process_with_the_id_of_a_living_master_waits(
    of: Recovery | None, address: str
) -> None:
    """
    B17: its store may be a clone with any counter, or a copy that RocketMQ runs on.
    """
    brokers, a, _ = _pair()
    newcomer = Register(1, address, of)
    refusal = brokers.refused(newcomer)
    assert ResponseCode.CONTROLLER_BROKER_ID_INVALID is refusal.code
    assert "its process at host:1 is alive" in refusal.reason
    assert a == brokers.master
    brokers.die(1)

    brokers.do(newcomer, RegistrationReply)
    assert brokers.state.master is None


@pytest.mark.parametrize("address", ["host:1", "elsewhere:1"])
def test_the_lease_of_a_master_ends_with_evidence_only(address: str) -> None:
    """
    C3: silence is none, and neither is another address; the next process at the same
    address is.
    """
    brokers, a, _ = _pair()
    brokers.die(1)
    brokers.do(Register(1, address, start(2)), RegistrationReply)

    expected = set() if address == "host:1" else {a}
    assert expected == brokers.state.unreleased


def test_a_closed_connection_gives_the_id_to_the_same_address_only() -> None:
    """
    B17: a restart takes milliseconds; a process elsewhere waits for evidence.
    """
    brokers, *_ = _pair()
    brokers.disconnect(1)
    elsewhere = Register(1, "elsewhere:1", start(2))
    assert brokers.code(elsewhere) is ResponseCode.CONTROLLER_BROKER_ID_INVALID
    brokers.do(Register(1, "host:1", start(2)), RegistrationReply)

    assert (None, 2) == (brokers.state.master, brokers.state.epoch)


def test_the_end_that_a_dead_process_told_is_remembered() -> None:
    """
    B2: a start that is behind it may have lost what was acknowledged.
    """
    brokers, *_ = _pair()
    brokers.reach(2, 1, 900)
    brokers.die(2)
    behind = start(2, end=800, keeps_pages=True)
    brokers.do(Register(2, "host:2", behind), RegistrationReply)

    replica = brokers.state.replicas[1]
    assert (LogStanding.RESTARTED, 900) == (replica.standing, replica.seen.end)


def test_a_copy_of_a_live_broker_is_refused() -> None:
    """B1: otherwise it would end the mastership of the working process."""
    brokers, a, _ = _pair()
    refusal = brokers.refused(Register(1, "copy:1", start(1, bits=7)))

    assert (ResponseCode.CONTROLLER_BROKER_ID_INVALID, frozenset({1})) == (
        refusal.code,
        refusal.broker_ids,
    )
    assert brokers.master == a


def test_a_copy_is_refused_while_heartbeats_of_the_other_process_may_be_missing() -> (
    None
):
    """C3: a new leader has no heartbeats yet."""
    brokers, a, _ = _pair()
    brokers.die(1)
    brokers.may_replace = False
    copy = Register(1, "copy:1", start(1, bits=7))

    assert brokers.code(copy) is ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert brokers.master == a


def test_a_copy_of_a_dead_broker_is_no_voter() -> None:
    """B1: it is there, and waits for an operator; a lease of the real one may run."""
    brokers, a, _ = _pair()
    brokers.die(1)
    told = brokers.do(Register(1, "copy:1", start(1, bits=7)), RegistrationReply)

    assert told.standing is LogStanding.COPIED
    assert frozenset({a}) == brokers.state.unreleased


def test_the_refusal_of_a_cleaned_broker_says_what_to_do() -> None:
    """RMQ-R44: the refusal explains the reason and the way out."""
    brokers, *_ = _pair()
    brokers.ask(Clean(frozenset({2}), with_living=True))

    assert "re-admit" in brokers.refused(Register(2, "host:2", start(2))).reason
