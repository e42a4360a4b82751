"""
What an append is promised, and what became of the promise. Pure.

Source: design of the acks (docs/in-sync.md), F (R204 to R220).
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
    """Whether it waits for others than the master."""
    is_synced: bool
    """Whether it waits for disks."""

    def __init__(self, name: str) -> None:
        # Kept, for each append asks.
        self.is_shared = name.startswith("all")
        self.is_synced = name.endswith("synced")

    # Each append looks a few things up by its ack, and the hash of Enum is in Python.
    __hash__ = object.__hash__


class AckOutcome(Enum):
    """
    How a wait ended. But for REACHED: the record is in the log, and may be confirmed
    later or be gone after the next election.
    """

    REACHED = "reached"
    TIMED_OUT = "timed out"
    """RocketMQ: FLUSH_SLAVE_TIMEOUT (R211)."""
    NOT_ENOUGH = "stored, but there are not enough replicas"
    """Everyone acked, but by now that is fewer than the minimum (R216)."""
    FENCED = "fenced"
    """The mastership or its lease is over (B8)."""


class RefusalReason(Enum):
    """
    Why nothing is appended.
    """

    NOT_ENOUGH = "not enough replicas in sync"
    LEGACY_MEMBER = "a legacy member never acks what is on its disk"
    NOT_SERVED = "the set does not serve this ack"
    FENCED = "this mastership is over"


@dataclass(frozen=True, slots=True)
class AppendRefusal:
    """
    Nothing was appended, because the promise could not be kept (R206).

    Attributes:
        reason: for programs.
        text: one line for people.
    """

    reason: RefusalReason
    text: str


class AckResult(NamedTuple):
    """
    The end of one wait: what was promised and what was reached.

    Attributes:
        ack: what was promised.
        end_offset: of the append.
        outcome: what became of it.
        received_by: broker ids, the master's included, that hold all of it.
        flushed_by: those that have all of it on disk.
        is_legacy: a legacy slave is in the set, whose acks never mean its disk.
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
        Whether the promise was kept.
        """
        return self.outcome is AckOutcome.REACHED

    @property
    def promise(self) -> str:
        """
        The ack by its name, with ``(legacy)`` where that makes it worth less.
        """
        name: str = self.ack.value
        return f"{name} (legacy)" if self.is_legacy and self.ack.is_shared else name
