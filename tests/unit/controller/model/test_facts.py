"""
The heartbeats that count for a broker (B1, RMQ-R72).
"""

from __future__ import annotations

from lib.controller.broker_set_driver import incarnation

from pystore.controller.model.facts import Facts, LastHeartbeat
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.replica import RegisteredBroker

NOW = RegisteredBroker(1, "", "", incarnation(2), 2, recovered=LogEnd(3, 50))


def _facts(last_heartbeat: LastHeartbeat) -> Facts:
    return Facts({1: last_heartbeat})


def test_only_the_registered_process_is_alive() -> None:
    """Neither a previous process nor a copy, nor a broker without a heartbeat."""
    assert _facts(LastHeartbeat(incarnation(2))).is_alive(NOW)
    for other in (incarnation(1), incarnation(3), incarnation(2, 7), None):
        assert not _facts(LastHeartbeat(other)).is_alive(NOW)
    assert not Facts().is_alive(NOW)
    assert not Facts().is_alive(None)


def test_the_log_end_is_that_of_the_registered_process() -> None:
    """Also if that is less than it began with; else where it began."""
    told = LastHeartbeat(incarnation(2), LogEnd(3, 20))

    assert LogEnd(3, 20) == _facts(told).position(NOW)
    assert LogEnd(3, 50) == _facts(LastHeartbeat(incarnation(2))).position(NOW)
    assert LogEnd(3, 50) == _facts(LastHeartbeat(None, LogEnd(9, 9))).position(NOW)
