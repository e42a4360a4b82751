"""
Reads ``tests/golden/ha``: what two Java brokers said to each other while their HA
connection was recorded, and what they held before and after.
"""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lib.oracle.golden_data import GOLDEN, read_json
from pystore.ha.wire.legacy import (
    LegacyFrame,
    decode_from_master,
    decode_from_slave,
)

__all__ = ["CAPTURES", "Capture", "LogFiles", "frames_of"]

_HA = GOLDEN / "ha"
_BLOCK_BYTES_MAX = 4 << 20


@dataclass(frozen=True)
class Capture:
    """
    One scenario.
    """

    name: str

    @cached_property
    def scenario(self) -> dict[str, Any]:
        """
        Configuration, both states before and after, connections, timeline.
        """
        value: dict[str, Any] = read_json(_HA / self.name / "scenario.json")
        return value

    def streams(self) -> list[tuple[bytes, bytes]]:
        """
        Returns the bytes of the slave and of the master, per connection.
        """
        return [
            (self._bytes(one["s2m"]), self._bytes(one["m2s"]))
            for one in self.scenario["connections"]
        ]

    def _bytes(self, name: str) -> bytes:
        return gzip.decompress((_HA / self.name / f"{name}.gz").read_bytes())

    def is_cut(self, connection: int) -> bool:
        """
        Returns whether the relay cut a connection in the middle of a frame.
        """
        return bool(self.scenario["connections"][connection]["m2sRelayLimit"] >= 0)

    def extract(self, state: str, folder: Path) -> Path:
        """
        Unpacks a store below *folder* and returns its root.

        Args:
            state: ``master-after`` or ``slave-before``.
            folder: where to.
        """
        root = folder / f"{self.name}-{state}"
        root.mkdir()
        with tarfile.open(_HA / self.name / f"{state}.tar.gz") as archive:
            archive.extractall(root, filter="data")
        return root

    def log(self, state: str, folder: Path) -> LogFiles:
        """
        Returns the commit log of a store, unpacked below *folder*.
        """
        files = sorted(self.extract(state, folder).rglob("commitlog/*"))
        return LogFiles({int(path.name): path.read_bytes() for path in files})


@dataclass(frozen=True)
class LogFiles:
    """
    Segments by base offset.
    """

    segments: dict[int, bytes]

    def bytes(self, offset: int, end_offset: int) -> bytes:
        """
        Returns what stands in ``[offset, end_offset)`` of one segment.
        """
        if offset == end_offset:
            return b""
        base = max(base for base in self.segments if base <= offset)
        return self.segments[base][offset - base : end_offset - base]


CAPTURES = tuple(Capture(path.name) for path in sorted(_HA.iterdir()))


def frames_of(stream: bytes, *, is_master: bool) -> Iterator[tuple[LegacyFrame, bytes]]:
    """
    Yields every frame of one direction with its bytes, and stops at half a frame.
    """
    left = memoryview(stream)
    while True:
        taken = (
            decode_from_master(left, _BLOCK_BYTES_MAX)
            if is_master
            else decode_from_slave(left)
        )
        if taken is None:
            return
        frame, size = taken
        yield frame, bytes(left[:size])
        left = left[size:]
