"""
A writer or a reader of a master, over its control socket, until it is told to stop.

Usage: recovery_traffic_child.py SOCKET writer|reader; then it executes commands
(`child.py`). The writer is the only one of its queue, so a record's number is its queue
offset, and tells its body.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Mapping

from child import serve

from pystore.broker.control_client import ControlClient
from pystore.broker.control_protocol import ControlCode, ControlError
from pystore.errors import PystoreError

__all__ = ["BODY", "TOPIC", "body"]

TOPIC = "t"
BODY = 1 << 14
"""Bytes of a body."""

_BATCH = 32
_RECORD_MAX = BODY + 1024
_READ = 1 << 18
_READ_RECORDS = _READ // BODY + 1
_TIMEOUT_MS = 20_000
_ERRORS_MAX = 5
_LOOK = 100  # the reader asks so seldom how long the log is


def body(number: int) -> str:
    """
    The content of a record, different for each number.
    """
    text = f"record {number} "
    return (text * (BODY // len(text) + 1))[:BODY]


class _Writer:
    """
    Appends with the ack ``all`` at a rate: what a slow append delayed is made up for.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._number = 0
        self._ends = threading.Event()
        self._thread = threading.Thread()
        self._errors: list[str] = []
        self._begun: tuple[float, int] = (0.0, 0)
        self._slowest_s = 0.0

    def fill(self, records: int) -> int:
        """
        Appends so many records as fast as it can; returns the next number.
        """
        with ControlClient(self._path) as client:
            end = self._number + records
            while self._number < end:
                self._append(client)
        return self._number

    def start(self, rate: int) -> None:
        """
        Begins to append so many bytes of bodies a second.
        """
        self._begun = time.monotonic(), self._number
        self._thread = threading.Thread(target=self._run, args=(rate,))
        self._thread.start()

    def written(self) -> int:
        """
        Returns the number of acknowledged records.
        """
        return self._number

    def stop(self) -> dict[str, object]:
        """
        Ends, and returns the rate in bytes a second, the slowest append in seconds, and
        the errors.
        """
        self._ends.set()
        self._thread.join()
        began_s, first = self._begun
        taken_s = time.monotonic() - began_s
        return {
            "rate": (self._number - first) * BODY / taken_s,
            "slowest": self._slowest_s,
            "errors": self._errors,
        }

    def _run(self, rate: int) -> None:
        began_s, first = self._begun
        with ControlClient(self._path) as client:
            while not self._ends.is_set():
                due_s = began_s + (self._number - first) * BODY / rate
                if self._ends.wait(max(0.0, due_s - time.monotonic())):
                    return
                asked_s = time.monotonic()
                try:
                    self._append(client)
                except PystoreError as error:
                    # The bench says that there is none.
                    self._errors.append(str(error))
                    return
                self._slowest_s = max(self._slowest_s, time.monotonic() - asked_s)

    def _append(self, client: ControlClient) -> None:
        numbers = range(self._number, self._number + _BATCH)
        bodies = [body(one).encode() for one in numbers]
        answer = client.append(TOPIC, bodies, ack="all", timeout_ms=_TIMEOUT_MS)
        assert answer["queueOffsets"] == list(numbers)
        self._number += _BATCH


class _Reader:
    """
    Reads at random places, and each other time the record that is damaged now.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._ends = threading.Event()
        self._thread = threading.Thread()
        self._damaged: int | None = None
        self._last = self._end = 0
        self._records = self._refused = self._failed = self._wrong = 0
        self._errors: list[str] = []

    def start(self) -> None:
        """
        Begins to read, without a pause.
        """
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def damaged(self, number: int | None) -> int | None:
        """
        Which record will be damaged, and may be refused; ``None``: all are good.
        """
        self._damaged = number
        self._last = self._last if number is None else number
        return number

    def stop(self) -> dict[str, object]:
        """
        Ends, and returns how many records were right, how many reads were refused since
        a record was damaged, how many failed otherwise, and how many gave other bytes.
        """
        self._ends.set()
        self._thread.join()
        return {
            "records": self._records,
            "refused": self._refused,
            "failed": self._failed,
            "wrong": self._wrong,
            "errors": self._errors,
        }

    def _run(self) -> None:
        turn = 0
        while not self._ends.is_set():
            try:
                with ControlClient(self._path) as client:
                    while not self._ends.is_set():
                        turn += 1
                        self._read(client, turn)
            except PystoreError as error:
                # The connection, which is a failed read, too.
                self._note(str(error))
                self._failed += 1

    def _read(self, client: ControlClient, turn: int) -> None:
        damaged = self._damaged
        if turn % _LOOK == 1:
            self._end = client.status()[0]["confirmOffset"] // _RECORD_MAX
        begin = self._last if turn % 2 else random.randrange(max(self._end, 1))
        try:
            found = client.read(topic=TOPIC, queueOffset=begin, maxBytes=_READ)
        except PystoreError as error:
            near = damaged is not None and begin <= damaged <= begin + _READ_RECORDS
            code = error.code if isinstance(error, ControlError) else None
            if near and code is ControlCode.CORRUPT:
                self._refused += 1
            else:
                self._failed += 1
                self._note(str(error))
            return
        records = found["records"]
        if not records:
            self._failed += 1
            self._note(f"nothing at {begin}")
        for number, each in enumerate(records, begin):
            if (each["queueOffset"], each["body"]) == (number, body(number)):
                self._records += 1
            else:
                self._wrong += 1
                self._note(f"other bytes at {number}")

    def _note(self, text: str) -> None:
        if len(self._errors) < _ERRORS_MAX:
            self._errors.append(text)


def main() -> None:
    """
    Executes commands.
    """
    path, role = sys.argv[1:]
    orders: Mapping[str, Callable[..., object]]
    if role == "writer":
        writer = _Writer(path)
        orders = {
            "fill": writer.fill,
            "start": writer.start,
            "written": writer.written,
            "stop": writer.stop,
        }
    else:
        reader = _Reader(path)
        orders = {
            "start": reader.start,
            "damaged": reader.damaged,
            "stop": reader.stop,
        }
    serve(orders)


if __name__ == "__main__":
    main()
