"""
Whether another copy of a log has the bytes that are damaged here.

A copy counts only if its own bytes prove themselves, and if it is a copy of the same
log: their histories agree up to the end of the range, and the bytes beside the range
are equal. Without an epoch table on both sides there must be such bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import xxhash

from pystore.bindings.ffi import Check, Proof
from pystore.core.log_reader import LogReader
from pystore.core.options import LogOptions
from pystore.damage.segment_walk import CHECKS
from pystore.epochs.table import EpochTable
from pystore.errors import PystoreError
from pystore.fs.layout import META_NAME, SEALS_NAME
from pystore.metastore.database import MetaStore
from pystore.metastore.schema import EPOCHS
from pystore.recovery.dry_run import inspect
from pystore.recovery.foreign_writer import find
from pystore.seals import Seal, read_seal
from pystore.store.open_reader import open_reader

__all__ = ["Source", "epochs_of"]

_STRICT = CHECKS & ~Check.PASS_COPIED
"""A record whose property CRC differs is no source, even if it was copied."""

_BESIDE = 1 << 12
"""So many bytes before and behind a range are compared: records with their times."""


class Source:
    """
    A replica's log as a source of bytes. A context manager; for one thread.

    Args:
        root: of the replica's store, closed or written by another process.

    Raises:
        PystoreError: it is no store, or cannot be read.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log, _ = open_reader(root, LogOptions())
        self._epochs = epochs_of(root)

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.log.close()

    def refusal(self, own: Target, start: int, end: int) -> str:
        """
        Returns why the bytes ``[start, end)`` of this copy cannot be taken; empty: they
        can, from `start_of` on.

        Args:
            own: the damaged log.
            start: of the range: a record, or a block of a seal.
            end: where the next record or block begins.
        """
        ends = self.log.ends()
        if own.segment_size and own.segment_size != ends.segment_size:
            return f"its segments have {ends.segment_size} bytes"
        if own.is_tail(end) and start < ends.published_end < end:
            end = ends.published_end  # zeros follow
        if start < ends.min_offset or end > ends.published_end:
            return f"it has only the offsets {ends.min_offset} to {ends.published_end}"
        if own.epochs is None or self._epochs is None:
            whose = own.root if own.epochs is None else self.root
            return (
                f"the epochs of {whose} cannot be read, which show whose the bytes are"
            )
        if len(own.epochs) and len(self._epochs):
            point = own.epochs.consistent_point(self._epochs, end, end)
            if point is None or point < end:
                return f"the two histories part at {point or 0}"
        seal = own.seal_of(start - start % ends.segment_size)
        if seal is not None and end <= seal.end_offset:
            is_sealed = self._is_as_sealed(seal, start, end)
            return "" if is_sealed else "its bytes are not the sealed ones"
        return self._bad_record(start, end) or self._other_beside(own, start, end)

    def _is_as_sealed(self, seal: Seal, start: int, end: int) -> bool:
        for index, digest in enumerate(seal.block_digests):
            low, high = seal.block_range(index)
            if low < end and high > start:
                if high > self.log.ends().published_end:
                    return False
                if xxhash.xxh3_64_intdigest(self.bytes(low, high)) != digest:
                    return False
        return True

    def bytes(self, start: int, end: int) -> bytes:
        """
        Returns the bytes of a range of the log.
        """
        return b"".join(block.view for block in self.log.blocks(start, end))

    def _bad_record(self, start: int, end: int) -> str:
        size = self.log.ends().segment_size
        at = start
        while at < end:
            limit = min(end, at - at % size + size)
            found = self.log.scan(at, limit, _STRICT).finish()
            if found.stop.is_bad or found.offset != limit:
                return f"its own record at {found.offset} is not whole: {found.text}"
            at = limit
        return ""

    def start_of(self, own: Target, start: int) -> int:
        """
        Returns the start of a damaged range in this copy.

        Damage may begin in the end of the record before it, where the property CRC
        stands: that record looks whole there, without a proof. It is of the range if
        it differs from a record of the copy that its CRC proves, or ends with zeros
        in place of bytes of the copy: those of the same lost sector.
        """
        size = self.log.ends().segment_size
        base = max(start - start % size, self.log.ends().min_offset)
        last: np.void | None = None
        for rows in self.log.scan(base, start, CHECKS):
            last = rows[-1]
        if last is None:
            return start
        before = int(last["offset"])
        if before + int(last["size"]) != start or not own.has(before, start):
            return start
        if own.is_damaged(before):
            return start  # it is a range of its own
        found, whole = own.bytes(before, start), self.bytes(before, start)
        if found == whole:
            return start
        is_proved = bool(last["proof"] & Proof.PROPERTY)
        is_of_range = is_proved or whole.startswith(found.rstrip(b"\0"))
        return before if is_of_range else start

    def _other_beside(self, own: Target, start: int, end: int) -> str:
        compared = 0
        ends = self.log.ends()
        start = self.start_of(own, start)
        for before, behind in own.whole_beside(start, end, _BESIDE):
            low = max(before, ends.min_offset)
            high = min(behind, ends.published_end)
            if low >= high:
                continue
            if own.bytes(low, high) != self.bytes(low, high):
                return f"its bytes {low} to {high}, beside the range, differ"
            compared += high - low
        if not compared and not (own.epochs and self._epochs):
            return "nothing shows that it is a copy of the same log"
        return ""


class Target:
    """
    The damaged log. A context manager; for one thread.

    Args:
        root: of the store.
        damaged: the damaged ranges, ascending.
    """

    def __init__(self, root: Path, damaged: Sequence[tuple[int, int]]) -> None:
        self.root = root
        self.epochs = epochs_of(root)
        self._damaged = damaged
        self._log: LogReader | None = None
        # Without a log that can be read only histories and seals decide.
        with suppress(PystoreError):
            self._log, _ = open_reader(root, LogOptions(serves_ill=True))

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *_: object) -> None:
        if self._log is not None:
            self._log.close()

    @property
    def segment_size(self) -> int:
        """
        In bytes; 0: not known.
        """
        return self._log.ends().segment_size if self._log is not None else 0

    def is_damaged(self, offset: int) -> bool:
        """
        Whether a damaged range has an offset.
        """
        return any(low <= offset < high for low, high in self._damaged)

    def is_tail(self, end: int) -> bool:
        """
        Whether no segment begins at or above an offset: behind the last damage the log
        may end anywhere.
        """
        if self._log is None or not self._log.segments():
            return False
        return end >= self._log.segments()[-1] + self.segment_size

    def bytes(self, start: int, end: int) -> bytes:
        """
        Returns the bytes of a range of the log.
        """
        assert self._log is not None
        return b"".join(block.view for block in self._log.blocks(start, end))

    def has(self, start: int, end: int) -> bool:
        """
        Whether the log can be read and has the range.
        """
        if self._log is None:
            return False
        ends = self._log.ends()
        return ends.min_offset <= start and end <= ends.published_end

    def whole_beside(self, start: int, end: int, size: int) -> list[tuple[int, int]]:
        """
        Returns the ranges before and behind a damaged one that are not damaged, of at
        most *size* bytes each.
        """
        if self._log is None:
            return []
        ends = self._log.ends()
        # A missing segment may reach further than what is known to be damaged.
        ill = [(one.offset, one.end) for one in self._log.ill()]
        bad = [*self._damaged, *ill]
        before = max(
            [ends.min_offset, *(min(to, start) for at, to in bad if at < start)]
        )
        behind = min(
            [ends.published_end, *(max(at, end) for at, to in bad if to > end)]
        )
        ranges = [(max(before, start - size), start), (end, min(behind, end + size))]
        return [(low, high) for low, high in ranges if low < high]

    def seal_of(self, base: int) -> Seal | None:
        """
        Returns the seal of a segment, if there is one that can be read.
        """
        try:
            return read_seal(self.root / META_NAME / SEALS_NAME, base)
        except PystoreError:
            # A seal that cannot be read proves nothing.
            return None


def epochs_of(root: Path) -> EpochTable | None:
    """
    Returns the epochs of a store, as an opening would find them; if a file is bad, from
    the metadata alone. ``None``: they cannot be read, so that it may be of a set.
    """
    if not (root / META_NAME).is_dir():
        return _epochs_in_file(root)
    try:
        return inspect(root, with_rocketmq=False).plan.epochs
    except PystoreError:
        # Another file of the metadata is bad, or a segment is missing.
        pass
    try:
        with MetaStore.open_read_only(root / META_NAME) as metastore:
            return metastore.read(EPOCHS)
    except PystoreError:
        # Nothing shows whose the bytes are.
        return None


def _epochs_in_file(root: Path) -> EpochTable | None:
    try:
        return find(root).read().epochs or EpochTable()
    except PystoreError:
        # As above.
        return None
