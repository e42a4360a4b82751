"""
The writer of a replicated run: appends the corpus with the ack `all`, wherever the
master is, and keeps what was acknowledged.

It is a client like any other: it knows the control sockets of the brokers, and finds
the master by asking. An append without an acknowledgement is made again, so its records
may be stored twice; they count once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType

import numpy as np

from pystore.broker.control_client import ControlClient
from pystore.broker.control_protocol import ControlCode, ControlError
from pystore.demo.ack_channel import ACK_DTYPE, Acks
from pystore.demo.workload import AppendJobs, Piece
from pystore.errors import PystoreError
from pystore.message.lines import Strings

__all__ = ["StreamWriter", "StreamedAck", "ack_array", "append_piece"]

_RETRY_S = 0.005
_ANSWER_S = 5.0
_ACK_MS = 3_000


@dataclass(frozen=True, slots=True)
class StreamedAck:
    """
    One acknowledged append.

    Attributes:
        job: its number.
        offset: of its first record.
        end: of its last one.
        count: of its records.
        broker: the master that acknowledged it.
    """

    job: int
    offset: int
    end: int
    count: int
    broker: int


def ack_array(acks: list[StreamedAck]) -> Acks:
    """
    Returns acknowledgements as rows, as the comparison takes them.
    """
    rows = [(one.job, one.offset, one.end, one.count) for one in acks]
    return np.array(rows, ACK_DTYPE)


def append_piece(
    client: ControlClient, job: int, piece: Piece, ack: str
) -> StreamedAck:
    """
    Appends some lines, all or none, and waits for the ack.

    Raises:
        PystoreError: as `ControlClient.call`.
    """
    answer = client.append(
        piece.file.topic,
        _texts(piece.bodies),
        queue_id=piece.file.queue_id,
        keys=[key.decode() for key in _texts(piece.keys)],
        ack=ack,
        timeout_ms=_ACK_MS,
    )
    offset, end, count = answer["offset"], answer["endOffset"], answer["records"]
    return StreamedAck(job, offset, end, count, answer["brokerId"])


class StreamWriter:
    """
    A context manager: a thread appends in it. One job is under way at a time.

    Args:
        sockets: the control socket of each broker.
        jobs: what to append, again from the first one on after the last one.
        acked: is told the broker and the number of records of each acknowledgement.

    Attributes:
        acks: the acknowledged appends; complete once the block has ended.
        retries: how many appends were refused, or had no answer.
    """

    def __init__(
        self,
        sockets: Mapping[int, Path],
        jobs: AppendJobs,
        acked: Callable[[int, int], object],
    ) -> None:
        self.acks: list[StreamedAck] = []
        self.retries = 0
        self._sockets = sockets
        self._jobs = jobs
        self._acked = acked
        self._target = min(sockets)
        self._client: ControlClient | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> StreamWriter:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """
        Ends the thread after the append under way. Idempotent.
        """
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        job = 0
        while not self._ending.is_set():
            try:
                if self._client is None:
                    socket = self._sockets[self._target]
                    self._client = ControlClient(socket, timeout_s=_ANSWER_S)
                piece = self._jobs.piece(job % self._jobs.count)
                ack = append_piece(self._client, job, piece, "all")
            except PystoreError as error:
                # Not the master, killed, or too few in sync: where is the master now?
                self.retries += 1
                self._turn(error)
                self._ending.wait(_RETRY_S)
                continue
            self.acks.append(ack)
            self._acked(ack.broker, ack.count)
            job += 1
        self._hang_up()

    def _turn(self, error: PystoreError) -> None:
        known: object = None
        if isinstance(error, ControlError):
            if error.code is ControlCode.NOT_REACHED:
                return
            known = error.answer.get("masterId")
        self._hang_up()
        ids = sorted(self._sockets)
        following = ids[(ids.index(self._target) + 1) % len(ids)]
        is_other = known in self._sockets and known != self._target
        self._target = int(str(known)) if is_other else following

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _texts(column: Strings) -> list[bytes]:
    offsets, data = column
    return [data[first:end] for first, end in pairwise(offsets.tolist())]
