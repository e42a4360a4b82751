"""
A store in memory: a log with its small truth, and what a crash takes of it.

Records are a length, a number and filler, multiples of 8 bytes; one does not cross a
segment, a blank record fills it. What a real store keeps in LMDB (epochs, promises,
cuts) is durable at once here; bytes are durable up to the flushed offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from struct import Struct

from pystore.epochs.table import EpochEntry, EpochTable
from pystore.errors import CorruptError, FullError, PoisonedError, PystoreError
from pystore.ha.master.effects import MasterLog
from pystore.ha.slave.effects import (
    Adopt,
    Append,
    Begin,
    Compare,
    Confirm,
    Cut,
    SlaveEffect,
    SlaveLog,
    Wipe,
)
from pystore.ha.wire.effects import Promise

__all__ = ["SEGMENT_SIZE", "SimStore"]

SEGMENT_SIZE = 4096
_HEAD = Struct(">II")
_BLANK = 1 << 31


class SimStore:
    """
    One broker's disk, and what of it is in memory only.

    Attributes:
        base: the minimum offset.
        data: the bytes from there on.
        published: end of whole records.
        flushed: durable below.
        confirm: the confirm offset.
        epochs: the table.
        promised: the highest epoch accepted.
        is_full: appends fail.
        is_poisoned: nothing more gets durable.
        cut_below: the lowest offset that was cut since the last look.
    """

    def __init__(self) -> None:
        self.base = 0
        self.data = bytearray()
        self.published = 0
        self.flushed = 0
        self.confirm = 0
        self.epochs = EpochTable()
        self.promised = 0
        self.is_full = False
        self.is_poisoned = False
        self._stored_confirm = 0

    @property
    def end(self) -> int:
        """
        The received end.
        """
        return self.base + len(self.data)

    def bytes_at(self, offset: int, end: int) -> bytes:
        """
        A copy of some bytes.
        """
        return bytes(self.data[offset - self.base : end - self.base])

    # -- how it stands --------------------------------------------------------

    def slave_log(self) -> SlaveLog:
        """
        As a slave's connection wants to know it.
        """
        return SlaveLog(
            self.base,
            self.published,
            self.end,
            self.flushed,
            self.confirm,
            self.epochs,
            self.promised,
            SEGMENT_SIZE,
            self.is_poisoned,
        )

    def master_log(self) -> MasterLog:
        """
        As a master's connection wants to know it.
        """
        return MasterLog(
            self.base,
            self.published,
            self.flushed,
            self.confirm,
            self.epochs,
            SEGMENT_SIZE,
        )

    # -- what changes it ------------------------------------------------------

    def append_record(self, number: int, size: int) -> int:
        """
        A master's append; answers its end.

        Raises:
            FullError: there is no space.
        """
        if self.is_full:
            raise FullError("the disk is full")
        room = SEGMENT_SIZE - self.published % SEGMENT_SIZE
        if size > room:
            self.data += _HEAD.pack(_BLANK | room, 0) + b"\xff" * (room - 8)
        self.data += _HEAD.pack(size, number) + bytes([number & 0xFF]) * (size - 8)
        self.published = self.end
        return self.published

    def carry_out(self, effect: SlaveEffect) -> int | None:
        """
        What a slave's connection asks for; of a comparison, answers the highest
        record end below the first difference, if there is one.

        Raises:
            PystoreError: it cannot be.
        """
        match effect:
            case Promise():
                self.promise(effect.epoch)
            case Append():
                self._append(effect)
            case Cut():
                self.cut(effect.offset)
            case Wipe():
                self._wipe(0)
            case Begin():
                self._wipe(effect.offset)
            case Confirm():
                self.confirm = max(self.confirm, min(effect.offset, self.published))
            case Adopt():
                self.epochs = effect.epochs
            case Compare():
                return self._compare(effect.offset, bytes(effect.block))
            case _:
                raise AssertionError(f"not for a store: {effect}")
        return None

    def promise(self, epoch: int) -> None:
        """
        Accepts an epoch, for good (B6).
        """
        assert epoch >= self.promised, f"promised {self.promised}, now {epoch}"
        self.promised = epoch

    def begin_epoch(self, epoch: int, heard: EpochEntry | None = None) -> bool:
        """
        Our own mastership begins: half a record goes, the entry is durable (RMQ-R154).

        Args:
            epoch: of the mastership.
            heard: the newest entry that a Java broker was told in a handshake. If its
                epoch began where ours does, ours is not recorded (RMQ-R137).

        Returns:
            Whether that happened.
        """
        if self.end > self.published:
            self.cut(self.published)
        kept = self.epochs.cut_suffix_from_epoch(epoch).drop_above(self.end)
        if heard is not None and heard.start_offset == self.end:
            if heard not in kept.entries:
                kept = kept.append(heard.epoch, heard.start_offset)
            self.epochs = kept
            return True
        self.epochs = kept.append(epoch, self.end)
        return False

    def cut(self, offset: int) -> None:
        """
        The log and its table end here, durably.
        """
        if not self.base <= offset <= self.end:
            raise PystoreError(f"a cut at {offset} of {self.base} to {self.end}")
        del self.data[offset - self.base :]
        self.epochs = self.epochs.cut_suffix(offset) if self.data else EpochTable()
        self.flushed = min(self.flushed, offset)
        self.confirm = min(self.confirm, offset)
        self._stored_confirm = min(self._stored_confirm, offset)
        if offset < self.published:
            self._parse_from_base()
            if self.published != offset:
                raise PystoreError(f"a cut at {offset} within a record")

    def retain(self, offset: int) -> None:
        """
        Everything below goes: the begin of a segment.
        """
        assert offset % SEGMENT_SIZE == 0
        assert self.base <= offset <= min(self.flushed, self.confirm)
        del self.data[: offset - self.base]
        self.base = offset
        self.epochs = self.epochs.cut_prefix(offset)

    def flush(self) -> None:
        """
        What is published is durable now, if the disk still works.
        """
        if not self.is_poisoned:
            self.flushed = max(self.flushed, self.published)
            self._stored_confirm = self.confirm

    # -- crashes --------------------------------------------------------------

    def lose_power(self, random: Random) -> None:
        """
        What was not flushed is gone, or a part of it.
        """
        keep = random.choice([self.flushed, random.randint(self.flushed, self.end)])
        del self.data[keep - self.base :]
        self.confirm = self._stored_confirm

    def open(self) -> None:
        """
        Recovery: whole records stay, labels without bytes go, all is flushed.
        """
        self._parse_from_base()
        del self.data[self.published - self.base :]
        self.epochs = self.epochs.drop_above(self.published)
        self.flushed = self.published
        self.confirm = min(self.confirm, self.published)
        self._stored_confirm = self.confirm
        self.is_poisoned = False

    # -- inside ---------------------------------------------------------------

    def _append(self, effect: Append) -> None:
        if self.is_full:
            raise FullError("the disk is full")
        if self.is_poisoned:
            raise PoisonedError("the disk failed")
        if not self.data and effect.offset != self.end:
            self._wipe(effect.offset)
        assert effect.offset == self.end, f"{effect.offset} is not {self.end}"
        if effect.entry is not None:
            self.epochs = self.epochs.append(
                effect.entry.epoch, effect.entry.start_offset
            )
        for _, block in effect.blocks:
            self.data += block
        self._parse()

    def _compare(self, offset: int, block: bytes) -> int | None:
        ours = self.bytes_at(offset, offset + len(block))
        pairs = enumerate(zip(ours, block, strict=True))
        different = next((at for at, (own, theirs) in pairs if own != theirs), None)
        if different is None:
            return None
        end = self.base
        for at in self._record_ends():
            if at <= offset + different:
                end = at
        return end

    def last_record_end(self, offset: int) -> int:
        """
        Returns the end of the last whole record below an offset.
        """
        ends = (one for one in self._record_ends() if one <= offset)
        return max(ends, default=self.base)

    def _record_ends(self) -> Iterator[int]:
        at = 0
        while self.base + at < self.published:
            at += _HEAD.unpack_from(self.data, at)[0] & ~_BLANK
            yield self.base + at

    def _wipe(self, base: int) -> None:
        self.base = self.published = self.flushed = self.confirm = base
        self._stored_confirm = base
        self.data.clear()
        self.epochs = EpochTable()

    def _parse_from_base(self) -> None:
        self.published = self.base
        self._parse()

    def _parse(self) -> None:
        at, end = self.published - self.base, len(self.data)
        while end - at >= _HEAD.size:
            size = _HEAD.unpack_from(self.data, at)[0] & ~_BLANK
            if size < _HEAD.size or size % 8:
                raise CorruptError("no record", offset=self.base + at)
            if at + size > end:
                break
            at += size
        self.published = self.base + at
