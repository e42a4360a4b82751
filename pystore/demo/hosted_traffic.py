"""
A writer and a consumer of one set whose replicas are on hosts: clients that know the
control sockets of the hosts, and find the master by asking.

An append without an acknowledgement is made again, so its records may be stored twice;
they count once. The consumer reads every record of the log once, in order, and checks
that the queue offsets of each queue have no gap.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.broker.control_client import ControlClient
from pystore.broker.control_protocol import ControlCode, ControlError
from pystore.demo.stream_writer import StreamedAck, append_piece
from pystore.demo.workload import AppendJobs
from pystore.errors import PystoreError, UnavailableError

__all__ = ["LogConsumer", "SetTraffic", "missing_records"]

_RETRY_S = 0.02
_ANSWER_S = 10.0
_IDLE_S = 0.1
_READ_BYTES = 1 << 20


def missing_records(acks: list[StreamedAck], offsets: NDArray[np.int64]) -> int:
    """
    Returns how many acknowledged records are not among those that were read.

    Args:
        acks: of one set.
        offsets: of the records that were read, ascending.
    """
    first = np.array([one.offset for one in acks], np.int64)
    end = np.array([one.end for one in acks], np.int64)
    counts = np.array([one.count for one in acks], np.int64)
    read = np.searchsorted(offsets, end) - np.searchsorted(offsets, first)
    return int(np.maximum(counts - read, 0).sum())


class LogConsumer:
    """
    Reads a log from its first record on, each record once. One thread.

    Attributes:
        problem: the first gap in the numbers of a queue; empty: there is none.
    """

    def __init__(self) -> None:
        self.problem = ""
        self._offsets: list[int] = []
        self._next: int | None = None
        self._queues: dict[tuple[str, int], int] = {}

    def read(self, client: ControlClient) -> bool:
        """
        Reads on; returns whether there was a record.

        Raises:
            PystoreError: as `ControlClient.call`; what was read before stays.
        """
        found = client.read(self._next, maxBytes=_READ_BYTES, bodies=False)
        for record in found["records"]:
            self._take(record)
        self._next = found["nextOffset"]
        return bool(found["records"])

    def offsets(self) -> NDArray[np.int64]:
        """
        Returns the offsets of the records that were read, ascending.
        """
        return np.array(self._offsets, np.int64)

    def _take(self, record: Mapping[str, Any]) -> None:
        queue, number = (record["topic"], record["queueId"]), record["queueOffset"]
        wanted = self._queues.get(queue, 0)
        if number != wanted and not self.problem:
            self.problem = (
                f"queue {queue[1]} of {queue[0]} has the number {number} at offset "
                f"{record['offset']}, and {wanted} is the next one"
            )
        self._queues[queue] = number + 1
        self._offsets.append(record["offset"])


class SetTraffic:
    """
    A context manager: a thread appends with the ack `all`, and another one reads.

    Args:
        name: of the set.
        sockets: the control socket of each host.
        jobs: what to append, again from the first one on after the last one.
        first: the first job.
        acked: is told the number of records of each acknowledgement.

    Attributes:
        name: of the set.
        acks: the acknowledged appends; complete once `stop` has returned.
        retries: how many appends were refused, or had no answer.
        rest_s: how long the writer rests after each append.
        consumer: what was read.
    """

    def __init__(
        self,
        name: str,
        sockets: Mapping[int, Path],
        jobs: AppendJobs,
        first: int,
        acked: Callable[[int], object],
    ) -> None:
        self.name = name
        self.acks: list[StreamedAck] = []
        self.retries = 0
        self.rest_s = 0.0
        self.consumer = LogConsumer()
        self._jobs = jobs
        self._first = first
        self._acked = acked
        self._writer = _NodeLink(name, sockets)
        self._reader = _NodeLink(name, sockets)
        self._ending, self._finished = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=one, daemon=True)
            for one in (self._write, self._read)
        ]

    def __enter__(self) -> SetTraffic:
        for one in self._threads:
            one.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._finished.set()
        for one in self._threads:
            one.join()

    def stop(self) -> None:
        """
        Ends the writer after the append under way; the consumer reads on. Idempotent.
        """
        self._ending.set()
        self._threads[0].join()

    def read_again(self, limit_s: float) -> LogConsumer:
        """
        Reads the whole log once more from its master, as a new consumer.

        Args:
            limit_s: how long no answer may come.

        Raises:
            UnavailableError: no host has the master, or it cannot read a record.
        """
        fresh, link = LogConsumer(), self._writer
        left, why = int(limit_s / _IDLE_S), "no host has the master"
        while left > 0:
            try:
                client = link.master()
                if client is not None:
                    if not fresh.read(client):
                        link.close()
                        return fresh
                    continue
            except PystoreError as error:
                # Said below, if no other host answers.
                why = str(error)
            link.turn()
            left -= 1
            time.sleep(_IDLE_S)
        raise UnavailableError(f"{self.name} cannot be read from its master: {why}")

    def _write(self) -> None:
        job = self._first
        while not self._ending.is_set():
            try:
                client = self._writer.connected()
                piece = self._jobs.piece(job)
                ack = append_piece(client, job, piece, "all")
            except PystoreError as error:
                # Not the master, killed, or too few in sync: another host may have it.
                self.retries += 1
                if _code(error) is not ControlCode.NOT_REACHED:
                    self._writer.turn()
                self._ending.wait(_RETRY_S)
                continue
            self.acks.append(ack)
            self._acked(ack.count)
            job += 1
            self._ending.wait(self.rest_s)
        self._writer.close()

    def _read(self) -> None:
        while not self._finished.is_set():
            try:
                client = self._reader.master()
                if client is not None and self.consumer.read(client):
                    continue
            except PystoreError:
                # Not there, or not the master any more: the next one.
                client = None
            if client is None:
                self._reader.turn()
            self._finished.wait(_IDLE_S)
        self._reader.close()


class _NodeLink:
    """
    A connection to the replica of a set on one host, until it is turned to the next.
    One thread.
    """

    def __init__(self, name: str, sockets: Mapping[int, Path]) -> None:
        self._name = name
        self._sockets = dict(sockets)
        self._at = 0
        self._client: ControlClient | None = None

    def connected(self) -> ControlClient:
        """
        Returns the connection.

        Raises:
            StorageError: the host does not answer.
        """
        if self._client is None:
            numbers = sorted(self._sockets)
            socket = self._sockets[numbers[self._at % len(numbers)]]
            self._client = ControlClient(socket, self._name, timeout_s=_ANSWER_S)
        return self._client

    def master(self) -> ControlClient | None:
        """
        Returns the connection, if the replica there is the master.

        Raises:
            PystoreError: as `ControlClient.call`.
        """
        client = self.connected()
        (status,) = client.status()
        return client if status["role"] == "master" else None

    def turn(self) -> None:
        """
        Goes on to the next host.
        """
        self.close()
        self._at += 1

    def close(self) -> None:
        """
        Ends the connection. Idempotent.
        """
        if self._client is not None:
            self._client.close()
            self._client = None


def _code(error: PystoreError) -> ControlCode | None:
    return error.code if isinstance(error, ControlError) else None
