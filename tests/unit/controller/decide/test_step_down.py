"""
How a mastership ends, and its lease (B9, C3).
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
    """A late word of an earlier mastership ends no later one."""
    brokers, a, b = _pair()
    assert brokers.code(StepDown(b, 1)) is ResponseCode.CONTROLLER_INVALID_MASTER
    assert brokers.code(StepDown(a, 0)) is ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH

    brokers.do(StepDown(a, 1), Done)
    brokers.die(2)
    brokers.elect()
    assert brokers.code(StepDown(a, 1)) is ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH
    assert brokers.master == a


def test_who_was_replaced_and_steps_down_late_ends_the_wait() -> None:
    """R81: its own word is worth as much as the time."""
    brokers, a, _ = _pair()
    brokers.die(1)
    brokers.elect()
    assert frozenset({a}) == brokers.state.unreleased

    brokers.do(StepDown(a, 1), Done)
    assert frozenset() == brokers.state.unreleased


def test_a_word_of_an_earlier_mastership_ends_no_later_lease() -> None:
    """B8: it was given up, but its process was elected again since, and replaced."""
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


def test_a_wait_that_is_over_is_over_once() -> None:
    """Saying it again changes nothing."""
    brokers, *_ = _pair()
    before = brokers.state
    brokers.do(EndLeases(1), Done)

    assert brokers.state == before
