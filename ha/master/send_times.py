"""
When a slave was last caught up. Pure.

For each frame a master remembers its send time and where its log ended then. Once the
slave holds that end, it was caught up at that time. Only the master's clock is used,
and sending alone moves nothing (RMQ-R97, RMQ-R99).

Source: docs/protocol.md (RMQ-K.3, TRANSFER_ACK), docs/replication.md.
"""

from __future__ import annotations

__all__ = ["SEND_TIMES_MAX", "SendTimes"]

SEND_TIMES_MAX = 1024
"""Frames that a session remembers; beyond that it forgets every second one."""


class SendTimes:
    """
    The ends that frames named, each with the time of the newest frame that named it.

    A forgotten frame makes a slave seem a few frames behind, never ahead. One thread.
    """

    def __init__(self) -> None:
        self._told: list[tuple[int, int]] = []
        self._caught_up_ms: int | None = None

    def sent(self, end_offset: int, now_ms: int) -> None:
        """
        Records a sent frame.

        Args:
            end_offset: of the log; it never falls within a session.
            now_ms: the send time.
        """
        if self._told and self._told[-1][0] == end_offset:
            self._told.pop()
        self._told.append((end_offset, now_ms))
        if len(self._told) > SEND_TIMES_MAX:
            del self._told[1:-1:2]

    def held(self, offset: int) -> int | None:
        """
        Returns when the slave was caught up, now that it holds the log up to
        *offset*: the time of the newest frame whose end is no higher.

        Returns:
            ``None`` if it has never held the end of any frame.
        """
        kept = len(self._told)
        for place, (end_offset, sent_ms) in enumerate(self._told):
            if end_offset > offset:
                kept = place
                break
            self._caught_up_ms = sent_ms
        del self._told[:kept]
        return self._caught_up_ms
