"""
When a slave has to speak, and when it has waited long enough. Pure.

Source: docs/protocol.md (K.3 rule 8; R176, R179 for legacy).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["REPLY_MS", "LinkTimers"]

REPLY_MS = 5_000
"""How long each reply of a handshake may take."""


@dataclass(slots=True)
class LinkTimers:
    """
    The clocks of one link, in milliseconds of the owner's clock.

    Attributes:
        heartbeat_ms: something is said at least so often.
        housekeeping_ms: a peer that says nothing for so long is gone.
        sent_ms: when we spoke last.
        heard_ms: when the peer did.
        reply_due_ms: until when a reply has to come; ``None``: none is awaited, and
            heartbeats flow.
    """

    heartbeat_ms: int
    housekeeping_ms: int
    sent_ms: int
    heard_ms: int
    reply_due_ms: int | None = None

    def ask(self, now_ms: int, wait_ms: int = REPLY_MS) -> None:
        """
        A reply is awaited from now on.
        """
        self.reply_due_ms = now_ms + wait_ms

    def settle(self) -> None:
        """
        No reply is awaited any more.
        """
        self.reply_due_ms = None

    def overdue(self, now_ms: int) -> str:
        """
        Returns what the peer failed to say in time, empty if nothing.
        """
        if self.reply_due_ms is not None:
            return "no reply to the handshake" if now_ms >= self.reply_due_ms else ""
        if now_ms - self.heard_ms >= self.housekeeping_ms:
            return f"nothing heard for {now_ms - self.heard_ms} ms"
        return ""

    def is_heartbeat_due(self, now_ms: int) -> bool:
        """
        Whether we have to speak.
        """
        is_flowing = self.reply_due_ms is None
        return is_flowing and now_ms - self.sent_ms >= self.heartbeat_ms

    def next_ms(self) -> int:
        """
        Returns when one of these is due.
        """
        if self.reply_due_ms is not None:
            return self.reply_due_ms
        return min(
            self.sent_ms + self.heartbeat_ms, self.heard_ms + self.housekeeping_ms
        )
