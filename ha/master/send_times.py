"""
When a slave had everything that there was. Pure.

A master remembers with each frame where its log ended when it was sent. Once the
slave holds that end, it was caught up at that time: no clock but the master's is
used, and nothing moves by sending alone (R97, R99).

Source: docs/protocol.md (K.3, TRANSFER_ACK), docs/replication.md.
"""

from __future__ import annotations

__all__ = ["SEND_TIMES_MAX", "SendTimes"]

SEND_TIMES_MAX = 1024
"""How many frames a session remembers; beyond it every other one is forgotten."""


class SendTimes:
    """
    The ends that frames told, with the time of the newest frame that told each.

    What is forgotten for want of room makes a slave look behind by a few frames,
    never ahead. One thread.
    """

    def __init__(self) -> None:
        self._told: list[tuple[int, int]] = []
        self._caught_up_ms: int | None = None

    def sent(self, end_offset: int, now_ms: int) -> None:
        """
        A frame is sent.

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
            ``None`` if it holds less than any frame told, now and ever before.
        """
        kept = len(self._told)
        for place, (end_offset, sent_ms) in enumerate(self._told):
            if end_offset > offset:
                kept = place
                break
            self._caught_up_ms = sent_ms
        del self._told[:kept]
        return self._caught_up_ms
