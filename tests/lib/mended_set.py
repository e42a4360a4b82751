"""
Brokers as processes whose stores are damaged and repaired while a writer and a consumer
go on.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lib.broker_process import BrokerProcess
from lib.command_line import run_json, segment_file
from pystore.errors import PystoreError

__all__ = ["SEGMENT", "TOPIC", "Traffic", "body", "damage", "fill", "mended"]

SEGMENT = 1 << 18
TOPIC = "t"

_BATCH = 20
_FILL = 200
_TIMEOUT_MS = 20_000


def body(number: int) -> bytes:
    """
    The content of a record, different for each number.
    """
    return b"record %d " % number + bytes([97 + number % 26]) * 900


class Traffic:
    """
    A writer and a consumer of one broker, each in a thread of its own, until it ends.

    Args:
        broker: the master.
        read_from: the broker that is read.
        start: the queue offset at which the consumer begins; the records there are
            written.
        first: the number of the first record that is written.

    Attributes:
        acknowledged: how many records were.
        numbers: of the acknowledged records, by queue offset.
        errors: of both threads.
    """

    def __init__(
        self,
        broker: BrokerProcess,
        read_from: BrokerProcess,
        start: int = 1400,
        first: int = 1_000_000,
    ) -> None:
        self.acknowledged = 0
        self.numbers: dict[int, int] = {}
        self.errors: list[str] = []
        self._ends = threading.Event()
        self._broker, self._read_from = broker, read_from
        self._next, self._number = start, first
        self._threads = [
            threading.Thread(target=self._guarded, args=(one,))
            for one in (self._write, self._read)
        ]

    def __enter__(self) -> Traffic:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for one in self._threads:
            one.join()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            while not self._ends.is_set():
                work()
        except PystoreError as error:
            # The test says that there is none.
            self.errors.append(f"{work.__name__}: {error}")

    def _write(self) -> None:
        numbers = range(self._number, self._number + _BATCH)
        bodies = [body(one) for one in numbers]
        with self._broker.client() as client:
            answer = client.append(TOPIC, bodies, ack="all", timeout_ms=_TIMEOUT_MS)
        self._number += _BATCH
        self.numbers.update(zip(answer["queueOffsets"], numbers, strict=True))
        self.acknowledged += answer["records"]

    def _read(self) -> None:
        """
        Follows the end of the log: old segments are damaged.
        """
        with self._read_from.client() as client:
            found = client.read(
                maxBytes=1 << 16, bodies=False, topic=TOPIC, queueOffset=self._next
            )
        self._next = found["nextQueueOffset"]


def fill(master: BrokerProcess, segments: int) -> int:
    """
    Appends so many segments; returns the number of records, which are numbered from 0.
    """
    with master.client() as client:
        number = 0
        while client.status()[0]["confirmOffset"] < segments * SEGMENT:
            bodies = [body(one) for one in range(number, number + _FILL)]
            client.append(TOPIC, bodies, ack="all", timeout_ms=_TIMEOUT_MS)
            number += _FILL
    return number


def damage(root: Path, base: int, kind: str) -> None:
    """
    Damages a segment: a bit of its payload or of a header, or the whole file.
    """
    path = segment_file(root, base)
    match kind:
        case "payload bit":
            _flip(path, 5000)
        case "header bit":
            _flip(path, 4)
        case "missing":
            path.unlink()
        case "short":
            os.truncate(path, 9000)
        case _:
            raise AssertionError(kind)


def _flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        old = file.read(1)
        file.seek(at)
        file.write(bytes([old[0] ^ 4]))


def mended(store: Path, source: Path) -> dict[str, Any]:
    """
    Repairs a store from another one by the command.
    """
    return run_json("recovery", "mend", store, "--from", source)
