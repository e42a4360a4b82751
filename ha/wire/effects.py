"""
Effects that both ends of a link ask of their owner. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Promise", "Send"]


@dataclass(frozen=True, slots=True)
class Promise:
    """
    Make the epoch durable before any later effect (B6).
    """

    epoch: int


class Send(NamedTuple):
    """
    Send bytes to the peer, in one write.
    """

    data: bytes
