"""
A writer and a reader of the set of some hosts, while these are killed and emptied.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from lib.broker_process import until
from lib.host_process import HostProcess
from pystore.errors import PystoreError

__all__ = ["HostedTraffic"]

_BATCH = 10
_TIMEOUT_MS = 20_000
_REST_S = 0.05
_TOPIC = "live"


class HostedTraffic:
    """
    A writer with the ack `all` and a reader, each in a thread of its own: of the host
    with the master, wherever it is.

    Args:
        hosts: of the set, spares too.

    Attributes:
        acknowledged: the bodies, by queue offset.
        read: those that the reader got, by queue offset.
        errors: of both threads, other than that a host is not the master or is gone.
        moves: how often the writer found the master on another host.
    """

    def __init__(self, hosts: Sequence[HostProcess]) -> None:
        self.acknowledged: dict[int, str] = {}
        self.read: dict[int, str] = {}
        self.errors: list[str] = []
        self.moves = 0
        self._hosts = list(hosts)
        self._ends = threading.Event()
        self._number = 0
        self._writes = True
        self._threads = [
            threading.Thread(target=self._guarded, args=(one,))
            for one in (self._write, self._follow)
        ]

    def __enter__(self) -> HostedTraffic:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for one in self._threads:
            one.join()

    def end(self) -> None:
        """
        Ends both, and checks that every acknowledged record was read where it is.
        """
        self.await_more(1)
        self._writes = False
        self._threads[0].join()
        until(lambda: self.acknowledged.keys() <= self.read.keys() or self.errors)
        self.__exit__()
        assert [] == self.errors
        assert self.acknowledged.items() <= self.read.items()

    def await_more(self, count: int) -> None:
        """
        Waits until so many more records are acknowledged, and read.
        """
        wanted = len(self.acknowledged) + count
        until(lambda: len(self.acknowledged) >= wanted)
        until(lambda: self.acknowledged.keys() <= self.read.keys() or self.errors)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            # The test says that there is none.
            self.errors.append(f"{work.__name__}: {error!r}")

    def _on_master(self, last: str, ask: Callable[[Any], Any]) -> tuple[str, Any]:
        """
        Returns which host answered, and its answer: the last one, or the first that
        has the master.
        """
        while not self._ends.is_set():
            for host in sorted(self._hosts, key=lambda one: one.address != last):
                try:
                    with host.client() as client:
                        return host.address, ask(client)
                except (PystoreError, OSError):
                    # Not the master, or not there: the next one.
                    continue
            self._ends.wait(_REST_S)
        return last, None

    def _write(self) -> None:
        at = ""
        while self._writes and not self._ends.is_set():
            numbers = range(self._number, self._number + _BATCH)
            texts = [f"{number} " + "x" * 900 for number in numbers]
            bodies = [one.encode() for one in texts]

            def append(client: Any, bodies: list[bytes] = bodies) -> Any:
                return client.append(_TOPIC, bodies, ack="all", timeout_ms=_TIMEOUT_MS)

            where, answer = self._on_master(at, append)
            if answer is None:
                return
            self.moves += where != at != ""
            at = where
            self._number += _BATCH
            self.acknowledged.update(zip(answer["queueOffsets"], texts, strict=True))
            self._ends.wait(_REST_S)

    def _follow(self) -> None:
        at, next_offset = "", 0
        while not self._ends.is_set():
            begin = next_offset

            def read(client: Any, begin: int = begin) -> Any:
                roles = [one["role"] for one in client.status()]
                if roles != ["master"]:
                    raise PystoreError(f"it has {roles}")
                return client.read(topic=_TOPIC, queueOffset=begin, maxBytes=1 << 20)

            at, found = self._on_master(at, read)
            if found is None:
                return
            for each in found["records"]:
                offset = each["queueOffset"]
                if offset != next_offset:
                    raise AssertionError(f"{offset} follows {next_offset - 1}")
                self.read[offset] = each["body"]
                next_offset = offset + 1
            if not found["records"]:
                self._ends.wait(_REST_S)
