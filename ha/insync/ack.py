"""
The acks of an append, and how the wait for one ended. Pure.

Source: docs/in-sync.md; RMQ-R204 to RMQ-R220.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

__all__ = ["Ack", "AckOutcome", "AckResult", "AppendRefusal", "RefusalReason"]


class Ack(Enum):
    """
    What the caller of an append waits for.
    """

    LEADER = "leader"
    """Received by the master."""
    LEADER_SYNCED = "leader-synced"
    """On the master's disk."""
    ALL = "all"
    """Received by every member of the SyncStateSet."""
    ALL_SYNCED = "all-synced"
    """On the disk of every member of the SyncStateSet."""

    is_shared: bool
    """Whether it waits for replicas other than the master."""
    is_synced: bool
    """Whether it waits for disks."""

    def __init__(self, name: str) -> None:
        # Stored, because each append reads them.
        self.is_shared = name.startswith("all")
        self.is_synced = name.endswith("synced")

    # Each append uses its ack as a key, and the hash of Enum is slow Python.
    __hash__ = object.__hash__


class AckOutcome(Enum):
    """
    How a wait ended. In all cases but REACHED the record is in the log: it may be
    confirmed later, or be lost by the next election.
    """

    REACHED = "reached"
    TIMED_OUT = "timed out"
    """RocketMQ: FLUSH_SLAVE_TIMEOUT (RMQ-R211)."""
    NOT_ENOUGH = "stored, but there are not enough replicas"
    """All members acked, but they are now fewer than the minimum (RMQ-R216)."""
    FENCED = "fenced"
    """The mastership or its lease is over (B8)."""


class RefusalReason(Enum):
    """
    Why nothing is appended.
    """

    NOT_ENOUGH = "not enough replicas in sync"
    LEGACY_MEMBER = "a legacy member does not report what is on its disk"
    NOT_SERVED = "the set does not serve this ack"
    FENCED = "this mastership is over"


@dataclass(frozen=True, slots=True)
class AppendRefusal:
    """
    Nothing was appended, because the ack could not be reached (RMQ-R206).

    Attributes:
        reason: for programs.
        text: one line for people.
    """

    reason: RefusalReason
    text: str


class AckResult(NamedTuple):
    """
    The end of one wait: the ack, and what was reached.

    Attributes:
        ack: that the append asked for.
        end_offset: of the append.
        outcome: how the wait ended.
        received_by: broker ids, the master's included, that hold all of it.
        flushed_by: those that have all of it on disk.
        is_legacy: a legacy slave is in the set; its acks do not cover its disk.
    """

    ack: Ack
    end_offset: int
    outcome: AckOutcome
    received_by: frozenset[int]
    flushed_by: frozenset[int]
    is_legacy: bool

    @property
    def is_reached(self) -> bool:
        """
        Whether the ack was reached.
        """
        return self.outcome is AckOutcome.REACHED

    @property
    def promise(self) -> str:
        """
        The name of the ack, with ``(legacy)`` if a legacy slave weakens it.
        """
        name: str = self.ack.value
        return f"{name} (legacy)" if self.is_legacy and self.ack.is_shared else name
