"""
Digests of a segment's blocks, computed while the scan has their bytes in the cache.

A block is 4 MiB, counted from the segment's first byte, as in seals. So equal segments
of replicas have equal digests. The last block ends where the log ends.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping

import xxhash

from pystore.core.log_reader import LogReader
from pystore.seals import BLOCK_BYTES

__all__ = ["BlockDigests", "BlockMap", "blocks_of"]


class BlockMap(Mapping[int, int]):
    """
    A number for each of some blocks, in ascending order, in 12 bytes each.

    Args:
        blocks: the numbers, of 64 bits, by block index.
    """

    __slots__ = ("_indexes", "_numbers")

    def __init__(self, blocks: Mapping[int, int] | None = None) -> None:
        rows = sorted((blocks or {}).items())
        self._indexes = array("I", (index for index, _ in rows))
        self._numbers = array("Q", (number for _, number in rows))

    def __getitem__(self, index: int) -> int:
        at = index  # most often every block is there
        if not 0 <= at < len(self._indexes) or self._indexes[at] != index:
            at = bisect_left(self._indexes, index)
        if at < len(self._indexes) and self._indexes[at] == index:
            return self._numbers[at]
        raise KeyError(index)

    def __iter__(self) -> Iterator[int]:
        return iter(self._indexes)

    def __len__(self) -> int:
        return len(self._indexes)

    def __repr__(self) -> str:
        return f"BlockMap({dict(self)!r})"


def blocks_of(length: int) -> int:
    """
    Returns how many blocks a segment of *length* bytes has.
    """
    return -(-length // BLOCK_BYTES)


class BlockDigests:
    """
    Computes the digests of a segment, or of some of its blocks, in offset order.

    Args:
        log: that holds the segment.
        base: base offset of the segment.
        end: offset after the last byte to digest.
        chosen: indexes of blocks; ``None``: all of them.
        stops: offsets where the logs of shorter replicas end: the digest of the block
            up to there is computed, too.
        with_whole: whether to compute the digest over all bytes, too.

    Attributes:
        blocks: XXH3-64 by block index.
        partial: XXH3-64 of a block up to a stop, by the stop.
        whole: XXH3-128 of all bytes, after ``finish``; empty without ``with_whole``.
        size: digested bytes.
    """

    def __init__(
        self,
        log: LogReader,
        base: int,
        end: int,
        *,
        chosen: Collection[int] | None = None,
        stops: Collection[int] = (),
        with_whole: bool = False,
    ) -> None:
        self._log = log
        self._base = base
        self._end = end
        self._at = base
        self._chosen = None if chosen is None else frozenset(chosen)
        self._stops = sorted(stops)
        self._block = xxhash.xxh3_64()
        self._all = xxhash.xxh3_128() if with_whole else None
        self.blocks: dict[int, int] = {}
        self.partial: dict[int, int] = {}
        self.whole = b""
        self.size = 0

    def reach(self, offset: int) -> None:
        """
        Digests the bytes below *offset* that were not digested yet.

        Raises:
            CorruptError, StorageError: the bytes cannot be read.
        """
        offset = min(offset, self._end)
        while self._at < offset:
            index = (self._at - self._base) // BLOCK_BYTES
            block_end = min(self._base + (index + 1) * BLOCK_BYTES, self._end)
            while self._stops and self._stops[0] <= self._at:
                self._stops.pop(0)
            stop = min(offset, block_end, *self._stops[:1])
            if self._chosen is None or index in self._chosen:
                self._take(stop)
                if stop in self._stops:
                    self.partial[stop] = self._block.intdigest()
                if stop == block_end:
                    self.blocks[index] = self._block.intdigest()
                    self._block.reset()
            self._at = stop

    def _take(self, stop: int) -> None:
        at = self._at
        while at < stop:
            view = self._log.acquire(at, stop - at)
            self._block.update(view)
            if self._all is not None:
                self._all.update(view)
            at += len(view)
            self.size += len(view)
            view.release()

    def finish(self) -> None:
        """
        Digests the remaining bytes.

        Raises:
            CorruptError, StorageError: the bytes cannot be read.
        """
        self.reach(self._end)
        if self._all is not None:
            self.whole = self._all.digest()
