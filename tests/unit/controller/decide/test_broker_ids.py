"""
The allocation of broker ids (RMQ-R26 to RMQ-R36).
"""

from __future__ import annotations

from lib.controller.broker_set_driver import Brokers, start

from pystore.controller.model.commands import ApplyId, Clean, GetNextId
from pystore.controller.model.replies import Applied, NextBrokerId
from pystore.remoting.codes import ResponseCode


def _next(brokers: Brokers) -> int:
    return brokers.do(GetNextId(), NextBrokerId).broker_id


def test_asking_for_the_next_id_changes_nothing() -> None:
    """RMQ-R30: it is 1 in an unknown set, for any number of requests."""
    brokers = Brokers()

    assert (1, 1) == (_next(brokers), _next(brokers))
    assert brokers.state.version == 0


def test_an_id_is_given_once_and_counted_once() -> None:
    """RMQ-R33, RMQ-R35: the set begins with its first broker, and 2 is next."""
    brokers = Brokers()
    brokers.do(ApplyId(1, "host:1;77"), Applied)

    assert _next(brokers) == 2
    assert brokers.state.replicas[0].address == "host:1"
    assert (None, 0, 0) == (
        brokers.state.master,
        brokers.state.epoch,
        brokers.state.agreed.set_epoch,
    )


def test_a_broker_that_lost_the_answer_gets_the_same_id_again() -> None:
    """RMQ-R26, RMQ-R28: the same code is the same broker; nothing changes."""
    brokers = Brokers()
    brokers.do(ApplyId(1, "host:1;77"), Applied)
    version = brokers.state.version

    assert brokers.do(ApplyId(1, "host:1;77"), Applied).broker_id == 1
    assert brokers.state.version == version


def test_the_second_of_two_applications_for_one_id_is_refused() -> None:
    """RMQ-R29: it requests the next id and gets that one."""
    brokers = Brokers()
    brokers.do(ApplyId(1, "a;1"), Applied)

    assert brokers.code(ApplyId(1, "b;1")) is ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert brokers.do(ApplyId(_next(brokers), "b;1"), Applied).broker_id == 2


def test_an_id_that_is_not_the_next_one_is_refused() -> None:
    """
    RMQ-R31, RMQ-R36: otherwise the counter would skip free ids or reach an allocated
    one.
    """
    brokers = Brokers()
    assert brokers.code(ApplyId(2, "a;1")) is ResponseCode.CONTROLLER_BROKER_ID_INVALID
    brokers.do(ApplyId(1, "a;1"), Applied)

    for wrong in (0, -1, 3, 2**62):
        assert (
            brokers.code(ApplyId(wrong, "b;1"))
            is ResponseCode.CONTROLLER_BROKER_ID_INVALID
        )
    assert _next(brokers) == 2


def test_a_cleaned_id_is_not_allocated_again() -> None:
    """RMQ-R255: not even to its former broker."""
    brokers = Brokers()
    brokers.join(1, start(1))
    brokers.join(2, start(1))
    brokers.ask(Clean(frozenset({2}), with_living=True))

    assert (
        brokers.code(ApplyId(2, "host:2;1"))
        is ResponseCode.CONTROLLER_BROKER_ID_INVALID
    )
    assert _next(brokers) == 3
