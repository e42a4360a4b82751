"""
Effects of a master's protocol object, and the log state that it gets. Pure.

A protocol object has no socket, no log and no clock: its owner gives it bytes, times
and `MasterLog`, and carries out its effects in order. Acks of the slave come out as
facts for `pystore.ha.insync`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pystore.epochs.table import EpochTable
from pystore.ha.insync.facts import SessionAcked, SessionEnded, SessionOpened
from pystore.ha.wire.codes import State
from pystore.ha.wire.effects import Promise, Send
from pystore.ha.wire.frames import NextQueueOffset

__all__ = [
    "CloseLink",
    "MasterEffect",
    "MasterLog",
    "MasterProtocol",
    "NewerEpochSeen",
    "QueueOffsetsAt",
    "SendBlock",
]


QueueOffsetsAt = Callable[[int], tuple[NextQueueOffset, ...]]


def _no_queues(offset: int) -> tuple[NextQueueOffset, ...]:  # noqa: ARG001
    return ()


class MasterLog(NamedTuple):
    """
    The state of the master's log at one moment.

    Attributes:
        min_offset: where it begins.
        end_offset: published.
        flushed_offset: durable below.
        confirm_offset: below it the set holds every byte.
        epochs: its table; the last one is the master's own epoch.
        segment_size: bytes of one file.
        wants_flush: a caller waits for the disks of slaves.
        is_poisoned: a write-back failed (A12).
        queue_offsets: returns the next queue offsets as of an offset; reads the disk.
    """

    min_offset: int
    end_offset: int
    flushed_offset: int
    confirm_offset: int
    epochs: EpochTable
    segment_size: int
    wants_flush: bool = False
    queue_offsets: QueueOffsetsAt = _no_queues
    is_poisoned: bool = False


class SendBlock(NamedTuple):
    """
    Send a head, then bytes of the log, directly from their segment.

    Attributes:
        head: everything that stands before the block.
        offset: where the block begins.
        size: of the block; it lies in one segment and one epoch; 0: a heartbeat.
        end_offset: of the log, as the head names it (or as it was then).
        crc_at: where in the head the CRC-32 of the block must be put, four bytes;
            ``None``: the head is complete.
    """

    head: bytes
    offset: int
    size: int
    end_offset: int
    crc_at: int | None = None


@dataclass(frozen=True, slots=True)
class NewerEpochSeen:
    """
    A peer tells a newer epoch: only the controller can confirm it (B16).

    Attributes:
        epoch: the newer one.
    """

    epoch: int


@dataclass(frozen=True, slots=True)
class CloseLink:
    """
    Close the link after all sends; later effects do not count.

    Attributes:
        reason: one line for people.
    """

    reason: str


MasterEffect = (
    Send
    | SendBlock
    | Promise
    | NewerEpochSeen
    | SessionOpened
    | SessionAcked
    | SessionEnded
    | CloseLink
)


class MasterProtocol(Protocol):
    """
    One link to a slave, of either protocol. One thread.

    The owner calls one of the inputs, then carries out `effects` until there are
    none, then calls the next. Times are milliseconds of a clock that never steps
    back.
    """

    @property
    def state(self) -> State:
        """
        Of the link.
        """

    def receive(self, data: memoryview, log: MasterLog, now_ms: int) -> int:
        """
        Takes at most one frame from the front of the received bytes.

        Returns:
            the bytes taken; carry out the effects before the next call. 0: more
            bytes are needed.
        """

    def next_block(
        self, log: MasterLog, bytes_max: int, now_ms: int
    ) -> SendBlock | None:
        """
        Returns the next bytes of the log for this slave, if there are any for it and
        its state allows it; the caller sends them before it asks again.

        Args:
            log: as it stands.
            bytes_max: what flow control allows now.
            now_ms: the send time.
        """

    def tick(self, log: MasterLog, now_ms: int) -> None:
        """
        Time passed: heartbeats, and peers that say nothing.
        """

    def lost(self, reason: str) -> None:
        """
        The socket is gone.
        """

    def suspend(self, now_ms: int) -> None:
        """
        No bytes of the log any more, heartbeats only.
        """

    def resume(self, now_ms: int) -> None:
        """
        Bytes again.
        """

    def shutdown(self, now_ms: int) -> None:
        """
        The end of the session.
        """

    def effects(self) -> list[MasterEffect]:
        """
        Returns what is to be done now, in order, once.
        """

    def next_deadline(self) -> int | None:
        """
        Returns when `tick` is due at the latest.
        """
