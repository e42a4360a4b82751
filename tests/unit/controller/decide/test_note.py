"""
The recorded log ends and refusals (B2, RMQ-R271).
"""

from __future__ import annotations

from lib.controller.broker_set_driver import Brokers, start

from pystore.controller.model.commands import NoteRefusal, SeeEnds
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.replica import LogStanding
from pystore.controller.model.replies import Done
from pystore.controller.model.state import NotedRefusal
from pystore.remoting.codes import ResponseCode


def test_a_recorded_log_end_outlives_the_controller() -> None:
    """B2: the next controller needs it, and has no heartbeat of that process."""
    brokers = Brokers()
    brokers.join(1, start(1))
    brokers.join(2, start(1))
    brokers.reach(2, 1, 900)
    brokers.do(SeeEnds(), Done)
    successor = Brokers(brokers.state)
    successor.register(2, start(2, epoch=1, end=899, keeps_pages=True))

    assert LogEnd(1, 900) == successor.state.replicas[1].seen
    assert successor.state.replicas[1].standing is LogStanding.RESTARTED


def test_a_log_end_that_did_not_grow_is_not_recorded() -> None:
    """No write without news."""
    brokers = Brokers()
    brokers.join(1, start(1, end=5))
    brokers.do(SeeEnds(), Done)
    before = brokers.state
    brokers.do(SeeEnds(), Done)

    assert brokers.state is before


def test_the_last_refusal_is_kept_once() -> None:
    """Repeated requests cause one commit; an unknown set keeps no refusal."""
    refusal = NoteRefusal(
        NotedRefusal(
            ResponseCode.CONTROLLER_INVALID_MASTER, "broker 2 is not master", 2
        )
    )
    brokers = Brokers()
    brokers.do(refusal, Done)
    assert brokers.state.version == 0

    brokers.join(1)
    brokers.do(refusal, Done)
    before = brokers.state
    brokers.do(refusal, Done)
    assert refusal.refusal == before.refusal
    assert brokers.state is before
