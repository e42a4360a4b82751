"""
What both ends of a link ask of their owner.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Promise:
    """
    The epoch is to be durable before anything that follows (B6).
    """

    epoch: int
