"""
Whose heartbeat counts for whom (B1, R72).
"""

from __future__ import annotations

from lib.controller.broker_set_driver import incarnation

from pystore.controller.model.facts import Facts, Pulse
from pystore.controller.model.member import Position
from pystore.controller.model.replica import Replica

NOW = Replica(1, "", "", incarnation(2), 2, recovered=Position(3, 50))


def _facts(pulse: Pulse) -> Facts:
    return Facts({1: pulse})


def test_only_the_registered_process_is_alive() -> None:
    """Not its predecessor, not its copy, and nobody without a heartbeat."""
    assert _facts(Pulse(incarnation(2))).is_alive(NOW)
    for other in (incarnation(1), incarnation(3), incarnation(2, 7), None):
        assert not _facts(Pulse(other)).is_alive(NOW)
    assert not Facts().is_alive(NOW)
    assert not Facts().is_alive(None)


def test_a_log_ends_where_its_process_says() -> None:
    """Also if that is less than it began with; else where it began."""
    told = Pulse(incarnation(2), Position(3, 20))

    assert Position(3, 20) == _facts(told).position(NOW)
    assert Position(3, 50) == _facts(Pulse(incarnation(2))).position(NOW)
    assert Position(3, 50) == _facts(Pulse(None, Position(9, 9))).position(NOW)
