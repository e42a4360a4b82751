"""
When to speak, and when to give up.
"""

from __future__ import annotations

from pystore.ha.slave.timers import REPLY_MS, LinkTimers


def test_a_reply_is_awaited_five_seconds() -> None:
    """
    No heartbeat is due meanwhile.
    """
    clocks = LinkTimers(100, 300, 0, 0)
    clocks.ask(1_000)

    assert 1_000 + REPLY_MS == clocks.next_ms()
    assert not clocks.is_heartbeat_due(5_999)
    assert clocks.overdue(5_999) == ""
    assert "did not reply" in clocks.overdue(6_000)


def test_heartbeats_and_silence_are_clocks_of_their_own() -> None:
    """
    The earlier one is the next deadline.
    """
    clocks = LinkTimers(100, 300, 0, 0, reply_due_ms=1)
    clocks.settle()

    assert clocks.next_ms() == 100
    assert clocks.is_heartbeat_due(100)
    clocks.sent_ms = 250
    assert clocks.next_ms() == 300
    assert "the master sent nothing for 300 ms" in clocks.overdue(300)
