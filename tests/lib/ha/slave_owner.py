"""
The owner of a slave's connection, for tests: it carries out effects on a log.

`ShortLog` is a log in memory whose records have eight bytes each; `StoreLog` is a
real store. `Owner` does what the contract in `pystore.ha.slave.effects` asks of the
follower: effects in order, and what follows from one before the next.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pystore.epochs.table import EpochTable
from pystore.errors import CorruptError, FullError, InvalidError
from pystore.ha.slave.effects import (
    Adopt,
    Append,
    Begin,
    Compare,
    Confirm,
    Cut,
    LeaveMaster,
    SlaveEffect,
    SlaveLog,
    SlaveProtocol,
    Wipe,
)
from pystore.ha.wire.codes import AckStatus
from pystore.ha.wire.effects import Promise, Send
from pystore.ha.wire.frames import NextQueueOffset
from pystore.metastore.schema import EPOCHS, PROMISED
from pystore.store.commit_log import CommitLog

RECORD = 8
"""Bytes of a record of `ShortLog`."""


class Differs(Exception):
    """
    A comparison found other bytes.
    """

    def __init__(self, offset: int) -> None:
        super().__init__(f"the bytes from {offset} on differ")
        self.offset = offset


class Log(Protocol):
    """
    What effects are carried out on.
    """

    def view(self) -> SlaveLog:
        """How it stands."""

    def carry_out(self, effect: SlaveEffect) -> None:
        """Does it, or raises."""


class ShortLog:
    """
    A log in memory.

    Args:
        data: its bytes.
        epochs: its table.
        confirm: its confirm offset.
        start: where it begins.
    """

    def __init__(
        self,
        data: bytes = b"",
        epochs: EpochTable | None = None,
        confirm: int = 0,
        start: int = 0,
        segment_size: int = 1 << 10,
    ) -> None:
        self.data = bytearray(data)
        self.epochs = epochs or EpochTable()
        self.start, self.confirm, self.flushed = start, confirm, 0
        self.promised, self.segment_size, self.is_poisoned = -1, segment_size, False
        self.room = 1 << 62
        self.queues: tuple[NextQueueOffset, ...] = ()

    def view(self) -> SlaveLog:
        """How it stands."""
        received = self.start + len(self.data)
        end = received - received % RECORD
        return SlaveLog(
            min_offset=self.start,
            end_offset=end,
            received_offset=received,
            flushed_offset=min(self.flushed, end),
            confirm_offset=self.confirm,
            epochs=self.epochs,
            promised_epoch=self.promised,
            segment_size=self.segment_size,
            is_poisoned=self.is_poisoned,
        )

    def carry_out(self, effect: SlaveEffect) -> None:
        """Does it, or raises."""
        match effect:
            case Promise(epoch):
                assert epoch > self.promised
                self.promised = epoch
            case Cut(offset):
                self._cut(offset)
            case Wipe():
                self.data.clear()
                self.epochs, self.confirm, self.start = EpochTable(), 0, 0
            case Begin():
                assert not self.data
                self.start, self.queues = effect.offset, effect.queues
            case Append():
                self._append(effect)
            case Compare(offset, block):
                self._compare(offset, bytes(block))
            case Adopt(epochs):
                self.epochs = epochs
            case Confirm(offset):
                assert self.confirm < offset <= self.view().end_offset
                self.confirm = offset
            case _:
                raise AssertionError(f"no effect on a log: {effect}")

    def _cut(self, offset: int) -> None:
        if offset % RECORD:
            raise InvalidError(f"no record ends at {offset}", offset=offset)
        assert self.start <= offset <= self.view().received_offset
        del self.data[offset - self.start :]
        self.epochs = self.epochs.cut_suffix(offset)
        self.confirm = min(self.confirm, offset)

    def _append(self, effect: Append) -> None:
        received = self.start + len(self.data)
        if not self.data and effect.offset != received:
            self.start = effect.offset - effect.offset % self.segment_size
            assert self.start == effect.offset
        assert effect.offset == self.start + len(self.data)
        if effect.entry is not None:
            assert len(effect.block)
            self.epochs = self.epochs.append(
                effect.entry.epoch, effect.entry.start_offset
            )
        if len(self.data) + effect.size > self.room:
            raise FullError("no space")
        for _, block in effect.blocks:
            self.data += block

    def _compare(self, offset: int, block: bytes) -> None:
        at = offset - self.start
        ours = bytes(self.data[at : at + len(block)])
        assert len(ours) == len(block), "a comparison beyond our end"
        for place, (one, other) in enumerate(zip(ours, block, strict=True), offset):
            if one != other:
                raise Differs(place - place % RECORD)


class StoreLog:
    """
    A real store. An empty one may begin anywhere: it is then made anew.

    Args:
        root: a folder that holds the store, or will.
        segment_size: of its segments.
    """

    def __init__(self, root: Path, segment_size: int) -> None:
        self._root, self._segment_size = root, segment_size
        self.log = self._open(root)

    def _open(self, root: Path) -> CommitLog:
        return CommitLog(root, segment_size=self._segment_size, flush_interval_ms=0)

    def view(self) -> SlaveLog:
        """How it stands."""
        ends = self.log.writer.log.ends()
        return SlaveLog(
            min_offset=ends.min_offset,
            end_offset=ends.published_end,
            received_offset=ends.received_end,
            flushed_offset=ends.synced_end,
            confirm_offset=ends.confirm_offset,
            epochs=self.log.epochs,
            promised_epoch=self.log.writer.metastore.read(PROMISED),
            segment_size=ends.segment_size,
        )

    def data(self) -> bytes:
        """The bytes of its whole records."""
        view = self.view()
        handle = self.log.writer.log
        return b"".join(
            bytes(block[1]) for block in handle.blocks(view.min_offset, view.end_offset)
        )

    def carry_out(self, effect: SlaveEffect) -> None:
        """Does it, or raises."""
        match effect:
            case Promise(epoch):
                with self.log.writer.metastore.change() as change:
                    change.promise(epoch)
            case Cut(offset):
                self.log.cut(offset)
            case Wipe():
                self._begin_anew(0)
            case Begin(offset):
                if offset != self.view().received_offset:
                    self._begin_anew(offset)
            case Append():
                self._append(effect)
            case Compare(offset, block):
                self._compare(offset, bytes(block))
            case Adopt(epochs):
                self._label(epochs)
            case Confirm(offset):
                self.log.writer.log.confirm(offset)
            case _:
                raise AssertionError(f"no effect on a log: {effect}")

    def _label(self, epochs: EpochTable) -> None:
        with self.log.writer.metastore.change() as change:
            change.replace_epochs(epochs)
        self.log.writer.export_epochs(epochs)

    def _begin_anew(self, offset: int) -> None:
        promised = self.view().promised_epoch
        self.log.close()
        self._root = self._root.with_name(self._root.name + "+")
        base = offset - offset % self._segment_size
        segment = self._root / "commitlog" / f"{base:020}"
        segment.parent.mkdir(parents=True)
        with segment.open("wb") as file:
            file.truncate(self._segment_size)
        self.log = self._open(self._root)
        self.carry_out(Promise(promised))

    def _append(self, effect: Append) -> None:
        view = self.view()
        if view.is_empty and effect.offset != view.received_offset:
            self._begin_anew(effect.offset)
        if effect.entry is not None:
            entry = effect.entry
            table = self.log.writer.metastore.read(EPOCHS)
            self._label(table.append(entry.epoch, entry.start_offset))
        for offset, block in effect.blocks:
            self.log.writer.log.append_raw(offset, block)

    def _compare(self, offset: int, block: bytes) -> None:
        view = self.view()
        ours = self.data()[offset - view.min_offset :][: len(block)]
        assert len(ours) == len(block), "a comparison beyond our end"
        if ours == block:
            return
        differing = next(
            place
            for place, (one, other) in enumerate(zip(ours, block, strict=True), offset)
            if one != other
        )
        ends = [view.min_offset]
        for rows in self.log.scan():
            ends += [int(row["offset"]) for row in rows]
        raise Differs(max(end for end in ends if end <= differing))


class Owner:
    """
    The follower's part of the contract.

    Args:
        connection: a slave's, of either protocol.
        log: what its effects are carried out on.

    Attributes:
        sent: what went to the master.
        closed: the end of the link, if it came.
        done: the effects, in the order in which they were carried out.
        now_ms: the clock.
    """

    def __init__(self, connection: SlaveProtocol, log: Log) -> None:
        self.connection, self.log = connection, log
        self.sent: list[bytes] = []
        self.closed: LeaveMaster | None = None
        self.done: list[SlaveEffect] = []
        self.now_ms = 1_000
        self._received = b""

    def connect(self) -> None:
        """The socket is open."""
        self.closed, self._received = None, b""
        self.connection.connected(self.log.view(), self.now_ms)
        self.settle()

    def feed(self, *pieces: bytes) -> None:
        """The master's bytes come, in these pieces."""
        for piece in pieces:
            if self.closed:
                return
            self._received += piece
            while self._receive() and not self.closed:
                pass
            if not self.closed:
                self.connection.drained(self.now_ms)
                self.settle()

    def _receive(self) -> int:
        data = memoryview(self._received)
        taken = self.connection.receive(data, self.now_ms)
        self.settle()
        self._received = self._received[taken:]
        return taken

    def pass_time(self, ms: int) -> None:
        """Time goes by, to each deadline in turn."""
        until = self.now_ms + ms
        while not self.closed:
            deadline = self.connection.next_deadline()
            if deadline is None or deadline > until:
                break
            self.now_ms = max(deadline, self.now_ms)
            self.connection.tick(self.now_ms)
            self.settle()
        self.now_ms = until

    def settle(self) -> None:
        """Carries out what is to be done, and what follows from it."""
        for effect in self.connection.effects():
            if self.closed:
                return
            self.done.append(effect)
            if isinstance(effect, Send):
                self.sent.append(effect.data)
            elif isinstance(effect, LeaveMaster):
                self.closed = effect
            else:
                self._carry_out(effect)
                self.settle()

    def _carry_out(self, effect: SlaveEffect) -> None:
        connection, now_ms = self.connection, self.now_ms
        try:
            self.log.carry_out(effect)
        except Differs as found:  # what a comparison is for
            assert isinstance(effect, Compare)
            connection.differs(effect, found.offset, self.log.view(), now_ms)
        except FullError as error:  # the master is told why
            connection.failed(effect, str(error), now_ms, AckStatus.DISK_FULL)
        except CorruptError as error:  # likewise
            connection.failed(effect, str(error), now_ms, AckStatus.BAD_CRC)
        except InvalidError as error:  # a cut inside a record
            connection.failed(effect, str(error), now_ms)
        else:
            connection.did(effect, self.log.view(), now_ms)
