"""
Digests of a segment's blocks, taken while a scan has their bytes in the cache.

A block is 4 MiB from the segment's first byte on, as in seals, so that equal
segments of replicas have equal digests. The last one ends where the log does.
"""

from __future__ import annotations

from collections.abc import Collection

import xxhash

from pystore.core.log_reader import LogReader
from pystore.seals import BLOCK_BYTES

__all__ = ["BlockDigests", "blocks_of"]


def blocks_of(length: int) -> int:
    """
    Returns how many blocks a segment of *length* bytes has.
    """
    return -(-length // BLOCK_BYTES)


class BlockDigests:
    """
    Takes the digests of a segment, or of some of its blocks, from the front.

    Args:
        log: that holds it.
        base: its base offset.
        end: behind the last byte to take.
        chosen: indexes of blocks; ``None``: all of them.
        stops: offsets at which the digest of the block so far is wanted, too: where
            the logs of shorter replicas end.
        with_whole: whether the digest over all bytes is asked for, too.

    Attributes:
        blocks: XXH3-64 by block index.
        partial: XXH3-64 of a block up to a stop, by the stop.
        whole: XXH3-128 of all bytes, after ``finish``; empty if not asked for.
        size: bytes taken.
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
        Takes what lies below *offset* and was not taken yet.

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
        Takes the rest.

        Raises:
            CorruptError, StorageError: the bytes cannot be read.
        """
        self.reach(self._end)
        if self._all is not None:
            self.whole = self._all.digest()
