"""
What a slave's connection asks for, and what it is told about its log. Pure.

A connection has no socket, no log and no clock. Its owner gives it bytes and times,
carries out its effects *in order*, and tells it with `SlaveLog` how the log stands
after each that changed the log; so an ack cannot precede what it acknowledges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from pystore.epochs.table import EpochEntry, EpochTable
from pystore.ha.wire.codes import AckStatus, State
from pystore.ha.wire.effects import Promise, Send

__all__ = [
    "Adopt",
    "Append",
    "Compare",
    "Confirm",
    "Cut",
    "LeaveMaster",
    "Retry",
    "SlaveEffect",
    "SlaveLog",
    "SlaveProtocol",
    "Wipe",
]


@dataclass(frozen=True, slots=True)
class SlaveLog:
    """
    How the slave's log stands.

    Attributes:
        min_offset: where it begins.
        end_offset: of its whole records; published.
        received_offset: end of its bytes, a half record included (A1).
        flushed_offset: durable below.
        confirm_offset: applied.
        epochs: its table.
        promised_epoch: the highest that it accepted, durable (B6).
        segment_size: bytes of one file.
        is_poisoned: a write-back failed: nothing more gets durable (A12).
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
    ASK_CONTROLLER = "asks the controller who is master, then connects"
    OPERATOR = "connects again with back-off; somebody has to change something"
    NEVER = "stays closed"


@dataclass(frozen=True, slots=True)
class Cut:
    """
    The log and its epoch table are to end here, durably, before anything that
    follows (A3, R274).

    Attributes:
        offset: a record end.
    """

    offset: int


@dataclass(frozen=True, slots=True)
class Wipe:
    """
    The log is to hold nothing, durably: its history is not the master's.
    """


@dataclass(frozen=True, slots=True)
class Append:
    """
    Bytes of the master's log go to ours.

    Attributes:
        offset: where they begin: the received end; for an empty log any, and the
            log then begins with the segment of that offset.
        block: the bytes, maybe none; borrowed until the effect was carried out.
        entry: the epoch that begins with the first byte, durable before it; else
            ``None``.
        more: blocks that follow it, one behind the other; borrowed likewise.
    """

    offset: int
    block: bytes | memoryview
    entry: EpochEntry | None = None
    more: Sequence[bytes | memoryview] = ()

    @property
    def blocks(self) -> Iterator[tuple[int, bytes | memoryview]]:
        """
        All that hold bytes, each with its offset.
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
    Bytes of the master's log are to be compared with ours (B10). If they are equal,
    `did` is told, else `SlaveProtocol.differs`.

    Attributes:
        offset: where they begin; they end at or below our end.
        block: the bytes; borrowed until the effect was carried out.
    """

    offset: int
    block: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Adopt:
    """
    The epoch table is to be this one, durably, before anything that follows: the
    bytes are equal, and the master knows better who wrote them.

    Attributes:
        epochs: nothing in it starts above the end.
    """

    epochs: EpochTable


@dataclass(frozen=True, slots=True)
class Confirm:
    """
    The confirm offset moves; never back.
    """

    offset: int


@dataclass(frozen=True, slots=True)
class LeaveMaster:
    """
    The link is to be closed; effects behind it are void.

    Attributes:
        reason: one line for people.
        retry: what then.
        redirect: where the peer says that the master is; a hint, maybe empty.
    """

    reason: str
    retry: Retry
    redirect: str = ""


SlaveEffect = (
    Send | Promise | Cut | Wipe | Append | Compare | Adopt | Confirm | LeaveMaster
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
        Where it stands.
        """

    @property
    def master_end(self) -> int | None:
        """
        The end of the master's log as last heard; ``None`` before it.
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
        Takes one frame from the front of what was received, or a run of data frames
        that goes on in one piece (`pystore.ha.wire.runs`).

        Returns:
            the bytes taken, whose effects are to be carried out before the next
            call; 0: more are needed.
        """

    def drained(self, now_ms: int) -> None:
        """
        Every frame that was received is dealt with: the time for one ack.
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
            effect: which one.
            reason: one line for people.
            now_ms: the time.
            status: what the master is told: DISK_FULL, POISONED, BAD_CRC for bytes
                that are no records, else GAP.
        """

    def differs(self, effect: Compare, offset: int, log: SlaveLog, now_ms: int) -> None:
        """
        `Compare` found other bytes.

        Args:
            effect: which one.
            offset: the highest record end (or begin of the log) of ours with equal
                bytes below; maybe below the block, in a record that began there.
            log: how it stands.
            now_ms: the time.
        """

    def flushed(self, log: SlaveLog, now_ms: int) -> None:
        """
        More of the log is durable, or never will be.
        """

    def tick(self, now_ms: int) -> None:
        """
        Time passed: heartbeats, and peers that say nothing.
        """

    def lost(self, reason: str) -> None:
        """
        The socket is gone.
        """

    def suspend(self, now_ms: int) -> None:
        """
        No more bytes are wanted; the link stays where the protocol can say so.
        """

    def resume(self, now_ms: int) -> None:
        """
        Bytes are wanted again.
        """

    def shutdown(self, now_ms: int) -> None:
        """
        The last ack, then the end.
        """

    def effects(self) -> list[SlaveEffect]:
        """
        Returns what is to be done now, in order, once.
        """

    def next_deadline(self) -> int | None:
        """
        Returns when `tick` is due at the latest.
        """
