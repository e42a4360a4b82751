"""
Writers with every ack, readers of what is confirmed, and a watcher of each broker.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from chaos.history import Appended, History, Read, Status

from pystore.broker.control_client import ControlClient
from pystore.broker.control_protocol import ControlCode, ControlError
from pystore.errors import PystoreError
from pystore.ha.insync.ack import Ack

__all__ = ["QUEUES", "TOPIC", "Target", "Workload"]

TOPIC = "t"
QUEUES = 4

_WRITERS_PER_ACK = 2
_BODY_MAX = 1_500
_REACHED = "reached"
_ROAMING = 0.01
_PAUSE_S = 0.005
_RETRY_S = 0.05
_STATUS_S = 0.1
_ACK_MS = 2_000
_ANSWER_S = 2.0
_READ_BYTES = 1 << 20


class Target:
    """
    A broker, as clients see it. Any thread reads, one writes.

    Attributes:
        name: of the broker.
        path: of its control socket.
        run: number of the process that was started last.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        self.run = 1


class Workload:
    """
    The threads. A context manager, which stops them.

    Args:
        targets: all brokers.
        history: takes the rows.
        draw: decides sizes and queues.
    """

    def __init__(
        self, targets: list[Target], history: History, draw: random.Random
    ) -> None:
        self._targets = targets
        self._history = history
        self._is_over = threading.Event()
        self._writing_is_over = threading.Event()
        self._errors: list[BaseException] = []
        acks = [one for one in Ack for _ in range(_WRITERS_PER_ACK)]
        self._writers = [
            self._thread(_Writer(self, number, one, random.Random(draw.random())).run)
            for number, one in enumerate(acks)
        ]
        self._others = [
            self._thread(kind(self, target).run)
            for kind in (_Reader, _Watcher)
            for target in targets
        ]

    def __enter__(self) -> Workload:
        for thread in (*self._writers, *self._others):
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop_writing()
        self._is_over.set()
        for thread in self._others:
            thread.join()

    def stop_writing(self) -> None:
        """
        Stops the writers; readers go on.
        """
        self._writing_is_over.set()
        for thread in self._writers:
            thread.join()

    def check(self) -> None:
        """
        Raises what ended a thread, if one has ended too early.
        """
        if self._errors:
            raise self._errors[0]

    def _thread(self, run: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                run()
            except BaseException as error:
                # Any error: a thread that ends unseen would prove nothing.
                self._errors.append(error)

        return threading.Thread(target=guarded, daemon=True)

    # -- for the threads ---------------------------------------------------------

    @property
    def targets(self) -> list[Target]:
        """
        All brokers.
        """
        return self._targets

    def add(self, row: Appended | Read | Status) -> None:
        """
        Adds a row to the history.
        """
        self._history.add(row)

    def writes_after(self, seconds: float) -> bool:
        """
        Waits, and returns whether writers go on.
        """
        return not self._writing_is_over.wait(seconds)

    def reads_after(self, seconds: float) -> bool:
        """
        Waits, and returns whether readers go on.
        """
        return not self._is_over.wait(seconds)


class _Client:
    """
    A connection to one broker, made again after an error.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._client: ControlClient | None = None

    def ask(self, request: dict[str, Any], more_s: float = 0) -> dict[str, Any]:
        if self._client is None:
            self._client = ControlClient(self._target.path, timeout_s=_ANSWER_S)
        try:
            return self._client.call(request, more_s)
        except ControlError:
            # Refused: the connection is whole.
            raise
        except BaseException:
            # No answer: a later one would be taken for that of another request.
            self.close()
            raise

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


class _Writer:
    """
    Appends one record after the other to the broker that took the one before.
    """

    def __init__(
        self, workload: Workload, number: int, ack: Ack, draw: random.Random
    ) -> None:
        self._workload, self._number, self._ack = workload, number, ack
        self._draw = draw

    def run(self) -> None:
        targets, draw = self._workload.targets, self._draw
        target, client = targets[0], _Client(targets[0])
        count = 0
        pause_s = _PAUSE_S
        while self._workload.writes_after(pause_s * draw.random() * 2):
            count += 1
            filler = "x" * draw.randrange(_BODY_MAX)
            row = self._append(client, target, f"{self._number}-{count}-{filler}")
            self._workload.add(row)
            pause_s = _PAUSE_S
            is_refused = row.outcome not in (_REACHED, ControlCode.NOT_REACHED.value)
            # A master that goes on beside another one would keep all writers.
            if is_refused or draw.random() < _ROAMING:
                client.close()
                target = draw.choice(targets)
                client, pause_s = _Client(target), _RETRY_S if is_refused else _PAUSE_S
        client.close()

    def _append(self, client: _Client, target: Target, body: str) -> Appended:
        queue_id = self._draw.randrange(QUEUES)
        begin_ns = History.now_ns()
        request = {
            "request": "append",
            "ack": self._ack.value,
            "timeoutMs": _ACK_MS,
            "messages": [{"topic": TOPIC, "queueId": queue_id, "body": body}],
        }
        found: dict[str, Any] = {}
        try:
            found = client.ask(request, _ACK_MS / 1000)
            outcome = found["outcome"]
        except ControlError as error:
            # Refused, or appended without the ack.
            outcome = error.code.value
            if error.code is ControlCode.NOT_REACHED:
                found = error.answer
        except PystoreError:
            # The broker is dead, or stands still.
            outcome = "lost"
        return Appended(
            body.rstrip("x"),
            queue_id,
            self._ack.value,
            begin_ns,
            History.now_ns(),
            target.name,
            outcome,
            found.get("masterEpoch", 0),
            found.get("offset", -1),
            found.get("queueOffsets", [-1])[0],
        )


class _Reader:
    """
    Reads a broker from its beginning to its confirm offset, again and again.
    """

    def __init__(self, workload: Workload, target: Target) -> None:
        self._workload, self._target = workload, target
        self._client = _Client(target)

    def run(self) -> None:
        place: int | None = None
        while self._workload.reads_after(_RETRY_S):
            begin_ns, run = History.now_ns(), self._target.run
            where = {} if place is None else {"offset": place}
            try:
                found = self._client.ask(
                    {"request": "read", "maxBytes": _READ_BYTES, **where}
                )
            except ControlError as error:
                # The log was cut or begins later, or the store is closing.
                if error.code is ControlCode.OUT_OF_RANGE:
                    place = None
                continue
            except PystoreError:
                # It is dead, or stands still.
                continue
            place = found["nextOffset"]
            if self._target.run != run:
                continue  # it may be of either process
            self._workload.add(
                Read(
                    self._target.name,
                    run,
                    begin_ns,
                    History.now_ns(),
                    found["confirmOffset"],
                    [
                        (one["offset"], one["body"].rstrip("x"))
                        for one in found["records"]
                    ],
                )
            )
        self._client.close()


class _Watcher:
    """
    Asks a broker for its status.
    """

    def __init__(self, workload: Workload, target: Target) -> None:
        self._workload, self._target = workload, target
        self._client = _Client(target)

    def run(self) -> None:
        while self._workload.reads_after(_STATUS_S):
            run = self._target.run
            try:
                (now,) = self._client.ask({"request": "status"})["nodes"]
            except PystoreError:
                # It is dead, stands still, or starts.
                continue
            if self._target.run != run:
                continue
            self._workload.add(
                Status(
                    self._target.name,
                    run,
                    History.now_ns(),
                    now["brokerId"] or 0,
                    now["role"],
                    now["masterEpoch"] or 0,
                    now["syncStateSet"],
                    now["minOffset"] or 0,
                    now["endOffset"] or 0,
                )
            )
        self._client.close()
