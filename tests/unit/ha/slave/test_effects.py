"""
Both connections keep the contract with their owner.
"""

from __future__ import annotations

from lib.ha.slave_owner import ShortLog

from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.effects import SlaveProtocol
from pystore.ha.slave.protocol_legacy import LegacySlaveProtocol
from pystore.ha.slave.protocol_v3 import V3SlaveProtocol


def test_both_connections_satisfy_the_contract() -> None:
    """
    A type checker reads this; at run time an effect comes once.
    """
    config = SlaveConfig("c", "b", 1)
    both: list[SlaveProtocol] = [V3SlaveProtocol(config), LegacySlaveProtocol(config)]
    for connection in both:
        assert connection.next_deadline() is None
        connection.connected(ShortLog().view(), 0)
        assert len(connection.effects()) == 1
        assert [] == connection.effects()
        assert connection.next_deadline() == 5_000


def test_a_log_without_bytes_is_empty_wherever_it_begins() -> None:
    """
    A half record is a byte.
    """
    assert ShortLog(start=1024).view().is_empty
    assert not ShortLog(b"x").view().is_empty
