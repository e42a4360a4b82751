"""
Effects of a slave's protocol object, and the log state that it gets. Pure.

A protocol object has no socket, no log and no clock. Its owner gives it bytes and
times, and carries out its effects *in order*. After each effect on the log it passes a
`SlaveLog` with the new state, so an ack cannot precede the bytes that it acknowledges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from pystore.core.frame_step import FrameLabel, SteppedFrame
from pystore.epochs.table import EpochEntry, EpochTable
from pystore.ha.wire.codes import AckStatus, State
from pystore.ha.wire.effects import Promise, Send
from pystore.ha.wire.frames import NextQueueOffset

__all__ = [
    "Adopt",
    "Append",
    "Begin",
    "Compare",
    "Confirm",
    "Cut",
    "LeaveMaster",
    "ReachFloor",
    "Retry",
    "SlaveEffect",
    "SlaveLog",
    "SlaveProtocol",
    "Wipe",
]


class SlaveLog(NamedTuple):
    """
    The state of the slave's log.

    Attributes:
        min_offset: where it begins.
        end_offset: of its whole records; published.
        received_offset: end of its bytes, a half record included (A1).
        flushed_offset: durable below.
        confirm_offset: applied.
        epochs: its table.
        promised_epoch: the highest that it promised, durable (B6).
        segment_size: bytes of one file.
        is_poisoned: a write-back failed: nothing more gets durable (A12).
        is_filling: it lacks records of its set, or queue offsets (B11).
        has_queue_offsets: it got those of its begin, or begins at 0 (A20).
    """

    min_offset: int
    end_offset: int
    received_offset: int
    flushed_offset: int
    confirm_offset: int
    epochs: EpochTable
    promised_epoch: int
    segment_size: int
    is_poisoned: bool = False
    is_filling: bool = False
    has_queue_offsets: bool = True

    @property
    def is_empty(self) -> bool:
        """
        Whether it holds no byte.
        """
        return self.received_offset == self.min_offset


class Retry(Enum):
    """
    What a slave does after its link was closed.
    """

    SOON = "connects again, with back-off"
    ASK_CONTROLLER = "asks the controller for the master, then connects"
    OPERATOR = "connects again with back-off; an operator must act"
    NEVER = "stays closed"


@dataclass(frozen=True, slots=True)
class Cut:
    """
    Cut the log and its epoch table, durably, before any later effect (A3, RMQ-R274).

    Attributes:
        offset: a record end.
    """

    offset: int


@dataclass(frozen=True, slots=True)
class Wipe:
    """
    Empty the log, durably: its history is not the master's.
    """


@dataclass(frozen=True, slots=True)
class Begin:
    """
    Begin the empty log at a segment, with the next queue offsets as of its first byte,
    durably, before any later effect (A20).

    Attributes:
        offset: of its first byte.
        floor: where the master's log begins: below *offset* this log lacks records
            that the set has (B11).
        queues: of each queue with a number above 0.
    """

    offset: int
    floor: int
    queues: tuple[NextQueueOffset, ...]


@dataclass(frozen=True, slots=True)
class ReachFloor:
    """
    Note, durably, that the master's log begins at or above this one: it lacks no record
    of the set any more (B11).
    """


class Append(NamedTuple):
    """
    Append bytes of the master's log.

    Attributes:
        offset: where they begin: the received end; for an empty log any, and the
            log then begins with the segment of that offset.
        block: the bytes, maybe none; borrowed until the effect was carried out.
        entry: the epoch that begins with the first byte, durable before it; else
            ``None``.
        more: the blocks that follow it without a gap; borrowed likewise.
    """

    offset: int
    block: bytes | memoryview
    entry: EpochEntry | None = None
    more: Sequence[bytes | memoryview] = ()

    @property
    def blocks(self) -> Iterator[tuple[int, bytes | memoryview]]:
        """
        All blocks with bytes, each with its offset.
        """
        offset = self.offset
        for block in (self.block, *self.more):
            if len(block):
                yield offset, block
            offset += len(block)

    @property
    def size(self) -> int:
        """
        Of all blocks together.
        """
        return len(self.block) + sum(map(len, self.more))


@dataclass(frozen=True, slots=True)
class Compare:
    """
    Compare bytes of the master's log with the slave's (B10). If they are equal, the
    owner calls `did`, else `SlaveProtocol.differs`.

    Attributes:
        offset: where they begin; they end at or below the end of the slave's log.
        block: the bytes; borrowed until the effect was carried out.
    """

    offset: int
    block: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Adopt:
    """
    Replace the epoch table, durably, before any later effect: the bytes are equal, and
    the master's table has their epochs.

    Attributes:
        epochs: nothing in it starts above the end.
    """

    epochs: EpochTable


class Confirm(NamedTuple):
    """
    Move the confirm offset; never back.
    """

    offset: int


@dataclass(frozen=True, slots=True)
class LeaveMaster:
    """
    Close the link; later effects do not count.

    Attributes:
        reason: one line for people.
        retry: what the slave does next.
        redirect: address of the master according to the peer; a hint, maybe empty.
    """

    reason: str
    retry: Retry
    redirect: str = ""


SlaveEffect = (
    Send
    | Promise
    | Cut
    | Wipe
    | Begin
    | ReachFloor
    | Append
    | Compare
    | Adopt
    | Confirm
    | LeaveMaster
)


class SlaveProtocol(Protocol):
    """
    One link to a master, of either protocol. One thread.

    The owner calls one of the inputs, then carries out `effects` until there are
    none, then calls the next. Times are milliseconds of a clock that never steps
    back.
    """

    @property
    def state(self) -> State:
        """
        Of the link.
        """

    @property
    def master_end(self) -> int | None:
        """
        The end of the master's log in its newest frame; ``None`` before that.
        """

    @property
    def wants_flush(self) -> bool:
        """
        Whether the master waits for bytes that are not durable here yet.
        """

    def connected(self, log: SlaveLog, now_ms: int) -> None:
        """
        The socket is open: the handshake begins.
        """

    def receive(self, data: memoryview, now_ms: int) -> int:
        """
        Takes one frame from the front of the received bytes, or a run of adjacent
        data frames (`pystore.ha.wire.runs`).

        Returns:
            the bytes taken; carry out the effects before the next call. 0: more
            bytes are needed.
        """

    @property
    def label(self) -> FrameLabel | None:
        """
        What the next frame has if the link is in step; then its owner may append the
        frame, ack it in one call, and report it with `stepped`. ``None``: it is not.
        """

    def stepped(self, frame: SteppedFrame, log: SlaveLog, now_ms: int) -> None:
        """
        A frame in step was appended and acked.

        Args:
            frame: what it has besides the label.
            log: its state after the append.
            now_ms: the send time of the ack.
        """

    def drained(self, now_ms: int) -> None:
        """
        All received frames were processed: one ack may be due.
        """

    def did(self, effect: SlaveEffect, log: SlaveLog, now_ms: int) -> None:
        """
        `Promise`, `Cut`, `Wipe`, `Append`, `Adopt` or `Confirm` was carried out, or
        `Compare` found no difference.
        """

    def failed(
        self,
        effect: SlaveEffect,
        reason: str,
        now_ms: int,
        status: AckStatus = AckStatus.GAP,
    ) -> None:
        """
        The log refused an effect: a cut not on a record end, bytes that are no
        records, a full disk.

        Args:
            effect: that failed.
            reason: one line for people.
            now_ms: the time.
            status: for the ack: DISK_FULL, POISONED, BAD_CRC for bytes that are no
                records, else GAP.
        """

    def differs(self, effect: Compare, offset: int, log: SlaveLog, now_ms: int) -> None:
        """
        `Compare` found other bytes.

        Args:
            effect: the comparison.
            offset: the highest record end (or begin) of the slave's log with equal
                bytes below; it may be below the block, where a record began.
            log: its state.
            now_ms: the time.
        """

    def flushed(self, log: SlaveLog, now_ms: int) -> None:
        """
        More of the log is durable, or never will be.
        """

    def tick(self, now_ms: int) -> None:
        """
        Takes the time: sends heartbeats, and closes silent links.
        """

    def lost(self, reason: str) -> None:
        """
        The socket is closed.
        """

    def suspend(self, now_ms: int) -> None:
        """
        Stops the flow of bytes; the link stays open if the protocol allows it.
        """

    def resume(self, now_ms: int) -> None:
        """
        Starts the flow of bytes again.
        """

    def shutdown(self, now_ms: int) -> None:
        """
        Sends the last ack, then ends the session.
        """

    def effects(self) -> list[SlaveEffect]:
        """
        Returns each effect once, in order.
        """

    def next_deadline(self) -> int | None:
        """
        Returns when `tick` is due at the latest.
        """
