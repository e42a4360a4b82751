"""
RocketMQ's index files: records by key. Read and verified, not written.

A file is a hash table with chains: each slot has the number of its newest entry, each
entry that of the entry before it in the slot. Only hashes are stored, so a query may
return records of another key with the same hash: the caller compares the keys.

Layout: docs/format.md, index files (RocketMQ 5.3: ``IndexFile``).
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pystore.errors import FormatError, InvalidError
from pystore.fs.atomic import storage_error
from pystore.fs.layout import INDEX
from pystore.message.properties import tags_code

__all__ = ["IndexFile", "IndexFiles", "IndexHeader", "index_hash"]


HEADER_BYTES = 40
_HEADER = struct.Struct(">4q2i")
_ENTRY = np.dtype(
    [("hash", ">i4"), ("offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")]
)
_SLOT = np.dtype(">i4")
_NAME = re.compile(r"[0-9]{17}")
_LATEST = 2**63 - 1


class IndexHeader(NamedTuple):
    """
    The first 40 bytes: the range of the entries, and their number.

    ``next_number`` is the number of the next entry. It begins at 1: entry 0 is never
    used.
    """

    begin_ms: int
    end_ms: int
    begin_offset: int
    end_offset: int
    used_slots: int
    next_number: int


def index_hash(topic: str, key: str) -> int:
    """
    Returns the hash of a record of ``topic`` with ``key``.
    """
    code = abs(tags_code(f"{topic}#{key}"))
    return 0 if code == 2**31 else code


@dataclass(frozen=True, slots=True)
class IndexFile:
    """
    One index file, read-only.

    Reads: any thread; a reference to an array keeps it valid.

    Attributes:
        path: of the file.
        header: at the time of the opening.
        slots: the newest entry of each chain, 0 for none.
        entries: the whole array; entries 1 to ``header.next_number - 1`` are used.
    """

    path: Path
    header: IndexHeader
    slots: NDArray[np.int32]
    entries: NDArray[np.void]

    @classmethod
    def open(cls, path: Path, slots: int, entries: int) -> IndexFile:
        """
        Maps an index file.

        Args:
            path: of the file.
            slots: ``maxHashSlotNum``.
            entries: ``maxIndexNum``.

        Raises:
            FormatError: its length does not match these numbers.
            StorageError: the system refused.
        """
        if slots <= 0 or entries <= 0:
            raise InvalidError(f"{slots} slots and {entries} entries make no index")
        expected = HEADER_BYTES + _SLOT.itemsize * slots + _ENTRY.itemsize * entries
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size != expected:
                    raise FormatError(
                        f"{path}: {size} bytes, but {slots} slots and {entries} "
                        f"entries take {expected}: give the store's maxHashSlotNum "
                        "and maxIndexNum",
                        path=str(path),
                    )
                data = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        except OSError as error:
            # The error of the system does not name the path.
            raise storage_error("read", path, error) from error
        return cls(
            path,
            IndexHeader._make(_HEADER.unpack_from(data)),
            np.frombuffer(data, _SLOT, slots, HEADER_BYTES),
            np.frombuffer(data, _ENTRY, entries, expected - _ENTRY.itemsize * entries),
        )

    def query(
        self, code: int, begin_ms: int = 0, end_ms: int = _LATEST
    ) -> Iterator[int]:
        """
        Yields the log offsets under a hash, newest first.

        Args:
            code: `index_hash` of topic and key.
            begin_ms: only records stored at or after it, to the second.
            end_ms: only records stored at or before it, to the second.
        """
        end = self.header.next_number
        number = int(self.slots[code % len(self.slots)])
        while 0 < number < min(end + 1, len(self.entries)) and end > 1:
            found, offset, seconds, previous = self.entries[number].item()
            if seconds < 0:
                return
            time_ms = self.header.begin_ms + seconds * 1000
            if found == code and begin_ms <= time_ms <= end_ms:
                yield offset
            # Numbers fall along a chain; else it would never end.
            if previous >= number or time_ms < begin_ms:
                return
            number = previous

    def is_within(self, begin_ms: int, end_ms: int) -> bool:
        """
        Whether the file has times in the range, by RocketMQ's rule.
        """
        first, last = self.header.begin_ms, self.header.end_ms
        return (
            (begin_ms < first and end_ms > last)
            or first <= begin_ms <= last
            or first <= end_ms <= last
        )

    def verify(self) -> list[str]:
        """
        Checks header, chains and times against the entries.

        Returns:
            The problems, one line each; empty: no problem.
        """
        header, size = self.header, len(self.entries)
        end = header.next_number
        if not 1 <= end <= size:
            return [f"{self.path}: the header's next entry is {end} of {size}"]
        used = self.entries[1:end]
        return [
            f"{self.path}: {problem}"
            for problem in (*self._verify_header(used), *self._verify_chains(used))
        ]

    def _verify_header(self, used: NDArray[np.void]) -> Iterator[str]:
        header = self.header
        slots = int(np.count_nonzero(self.slots))
        if header.used_slots != slots:
            yield f"the header counts {header.used_slots} used slots, there are {slots}"
        if not len(used):
            return
        ends = int(used["offset"][0]), int(used["offset"][-1])
        if (header.begin_offset, header.end_offset) != ends:
            yield (
                f"the header spans offsets {header.begin_offset} to "
                f"{header.end_offset}, the entries {ends[0]} to {ends[1]}"
            )
        span = max(0, header.end_ms - header.begin_ms) // 1000
        late = np.flatnonzero((used["seconds"] < 0) | (used["seconds"] > span))
        if len(late):
            yield f"entry {late[0] + 1} is not within the header's times"
        negative = np.flatnonzero(used["hash"] < 0)
        if len(negative):
            yield f"entry {negative[0] + 1} has a negative hash"

    def _verify_chains(self, used: NDArray[np.void]) -> Iterator[str]:
        """
        Every entry names the one before it in its slot, every slot the last.
        """
        slot = used["hash"].astype(np.int64) % len(self.slots)
        order = np.argsort(slot, kind="stable")
        sorted_slot, number = slot[order], order + 1
        is_first = np.ones(len(order), dtype=bool)
        is_first[1:] = sorted_slot[1:] != sorted_slot[:-1]
        previous = np.where(is_first, 0, np.roll(number, 1))
        broken = number[used["previous"][order] != previous]
        if len(broken):
            yield f"the chain breaks at entry {broken.min()}"
        heads = np.zeros(len(self.slots), np.int64)
        heads[slot] = np.arange(1, len(used) + 1)
        wrong = np.flatnonzero(heads != self.slots)
        if len(wrong):
            yield f"slot {wrong[0]} does not name its newest entry"


class IndexFiles:
    """
    All index files of a store, oldest first.

    Attributes:
        files: the files.
    """

    def __init__(
        self, root: Path, slots: int = 5_000_000, entries: int = 20_000_000
    ) -> None:
        """
        Opens them.

        Args:
            root: of the store.
            slots: ``maxHashSlotNum``.
            entries: ``maxIndexNum``.

        Raises:
            FormatError: a name is no time, or a length does not fit.
            StorageError: the system refused.
        """
        folder = root / INDEX
        try:
            paths = sorted(folder.iterdir())
        except FileNotFoundError:
            # Without an index every query has no result.
            paths = []
        except OSError as error:
            # The error of the system does not name the path.
            raise storage_error("read", folder, error) from error
        for path in paths:
            if not _NAME.fullmatch(path.name):
                raise FormatError(
                    f"{path}: its name is no time (yyyyMMddHHmmssSSS): "
                    "move it out of the index",
                    path=str(path),
                )
        self.files = [IndexFile.open(path, slots, entries) for path in paths]

    def query(
        self,
        topic: str,
        key: str,
        *,
        begin_ms: int = 0,
        end_ms: int = _LATEST,
        max_count: int = 64,
    ) -> list[int]:
        """
        Returns log offsets of records that may have a key, in RocketMQ's order:
        newest file first, newest entry first.

        Args:
            topic: of the records.
            key: one of ``KEYS``, or the unique key.
            begin_ms: only records stored at or after it, to the second.
            end_ms: only records stored at or before it, to the second.
            max_count: at most so many; RocketMQ never returns more than 64.
        """
        code, found = index_hash(topic, key), list[int]()
        for file in reversed(self.files):
            if file.is_within(begin_ms, end_ms):
                for offset in file.query(code, begin_ms, end_ms):
                    if len(found) >= max_count:
                        return found
                    found.append(offset)
            if file.header.begin_ms < begin_ms:
                break
        return found

    def verify(self) -> list[str]:
        """
        Checks every file (`IndexFile.verify`).
        """
        return [problem for file in self.files for problem in file.verify()]
