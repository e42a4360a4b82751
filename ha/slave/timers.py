"""
When a slave must send a frame, and when its peer is overdue. Pure.

Source: docs/protocol.md (RMQ-K.3.8; RMQ-R176, RMQ-R179 for legacy).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["REPLY_MS", "LinkTimers"]

REPLY_MS = 5_000
"""How long each reply of a handshake may take."""


@dataclass(slots=True)
class LinkTimers:
    """
    The timers of one link, in milliseconds of the owner's clock.

    Attributes:
        heartbeat_ms: how often a frame must be sent.
        housekeeping_ms: a peer that sends nothing for so long is lost.
        sent_ms: when the last frame was sent.
        received_ms: when the last frame was received.
        reply_due_ms: when the awaited reply is overdue; ``None``: none is awaited,
            and heartbeats are sent.
    """

    heartbeat_ms: int
    housekeeping_ms: int
    sent_ms: int
    received_ms: int
    reply_due_ms: int | None = None

    def ask(self, now_ms: int, wait_ms: int = REPLY_MS) -> None:
        """
        Begins to wait for a reply.
        """
        self.reply_due_ms = now_ms + wait_ms

    def settle(self) -> None:
        """
        The reply came.
        """
        self.reply_due_ms = None

    def overdue(self, now_ms: int) -> str:
        """
        Returns what the peer failed to send in time; empty: nothing.
        """
        if self.reply_due_ms is not None:
            return (
                "the master did not reply to the handshake"
                if now_ms >= self.reply_due_ms
                else ""
            )
        if now_ms - self.received_ms >= self.housekeeping_ms:
            return f"the master sent nothing for {now_ms - self.received_ms} ms"
        return ""

    def is_heartbeat_due(self, now_ms: int) -> bool:
        """
        Whether a frame must be sent.
        """
        is_flowing = self.reply_due_ms is None
        return is_flowing and now_ms - self.sent_ms >= self.heartbeat_ms

    def next_ms(self) -> int:
        """
        Returns when the next timer is due.
        """
        if self.reply_due_ms is not None:
            return self.reply_due_ms
        return min(
            self.sent_ms + self.heartbeat_ms, self.received_ms + self.housekeeping_ms
        )
