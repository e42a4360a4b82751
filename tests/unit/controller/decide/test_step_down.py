"""
The end of a mastership and of its lease (B9, C3).
"""

from __future__ import annotations

from lib.controller.broker_set_driver import Brokers, start

from pystore.controller.model.commands import EndLeases, StepDown
from pystore.controller.model.replies import Done
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import Member


def _pair() -> tuple[Brokers, Member, Member]:
    brokers = Brokers()
    a, b = brokers.join(1, start(1)), brokers.join(2, start(1))
    brokers.elect(1)
    brokers.admit(b)
    return brokers, a, b


def test_a_master_that_stepped_down_leaves_no_lease() -> None:
    """The next one need not wait; the epoch is another."""
    brokers, a, b = _pair()
    brokers.do(StepDown(a, 1), Done)
    assert (None, 2, a) == (
        brokers.state.master,
        brokers.state.epoch,
        brokers.state.resigned,
    )

    elected = brokers.elect().leadership
    assert elected is not None
    assert (b, 3, False) == (elected.master, elected.epoch, elected.waits_for_lease)


def test_only_the_master_of_that_epoch_steps_down() -> None:
    """A late message of an earlier mastership ends no later one."""
    brokers, a, b = _pair()
    assert brokers.code(StepDown(b, 1)) is ResponseCode.CONTROLLER_INVALID_MASTER
    assert brokers.code(StepDown(a, 0)) is ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH

    brokers.do(StepDown(a, 1), Done)
    brokers.die(2)
    brokers.elect()
    assert brokers.code(StepDown(a, 1)) is ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH
    assert brokers.master == a


def test_a_late_step_down_of_a_replaced_master_ends_the_wait() -> None:
    """RMQ-R81: its resignation is as good as the end of the lease."""
    brokers, a, _ = _pair()
    brokers.die(1)
    brokers.elect()
    assert frozenset({a}) == brokers.state.unreleased

    brokers.do(StepDown(a, 1), Done)
    assert frozenset() == brokers.state.unreleased


def test_a_resignation_of_an_earlier_mastership_ends_no_later_lease() -> None:
    """B8: its process resigned, but was elected again since, and replaced."""
    brokers, a, b = _pair()
    brokers.do(StepDown(a, 1), Done)
    brokers.die(2)
    brokers.elect()
    brokers.register(2, start(1))
    brokers.admit(b)
    brokers.die(1)
    brokers.elect()
    assert (b, 4) == (brokers.master, brokers.state.epoch)

    assert brokers.code(StepDown(a, 1)) is ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH
    assert frozenset({a}) == brokers.state.unreleased
    brokers.do(StepDown(a, 3), Done)


def test_a_master_does_not_wait_for_its_own_former_lease() -> None:
    """It is the same process: what it may decide it decides itself."""
    brokers, a, b = _pair()
    brokers.die(1)
    brokers.elect()
    brokers.register(1, start(1))
    brokers.admit(a)
    brokers.die(2)
    brokers.elect()

    assert frozenset({b}) == brokers.state.unreleased
    assert brokers.master == a


def test_a_second_end_of_the_wait_changes_nothing() -> None:
    """Saying it again changes nothing."""
    brokers, *_ = _pair()
    before = brokers.state
    brokers.do(EndLeases(1), Done)

    assert brokers.state == before
