"""
Clients of a virtual set: writers with every ack, readers of what is confirmed, and a
watcher of each broker. They fill the same history as those of the chaos runs.
"""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import Any

from chaos.history import Appended, Read, Row, Status
from sim.broker import Broker
from sim.broker_set import BrokerSet
from sim.world import MS, SECOND, Task

from pystore.broker.control_protocol import ControlCode
from pystore.ha.insync.ack import Ack

__all__ = ["QUEUES", "TOPIC", "Clients"]

TOPIC = "t"
QUEUES = 3

_BODY_MAX = 3_000
_ACK_MS = 2_000
_ANSWER_NS = 3 * SECOND
_READ_NS, _STATUS_NS = 300 * MS, 200 * MS
_SLOWER = 3  # where no writer writes all the time
_ROAMING = 0.02
_POLL_NS = 5 * MS

_Answer = dict[str, Any] | None


class Clients:
    """
    All clients of a set, until they are stopped.

    Args:
        brokers: the set.
        draw: decides sizes, queues, pauses.
        pause_ns: of a writer, on average; 0: there are no writers.

    Attributes:
        rows: the history so far.
        known: the newest status of each broker that answers.
        acked: how many records `all` acknowledged.
        is_writing: whether writers go on.
    """

    def __init__(self, brokers: BrokerSet, draw: Random, pause_ns: int) -> None:
        self.rows: list[Row] = []
        self.known: dict[str, dict[str, Any]] = {}
        self.acked = 0
        self.is_writing = True
        self._brokers = brokers
        self._world = brokers.world
        self._draw = draw
        self._pause_ns = pause_ns
        self._slower = 1 if pause_ns else _SLOWER
        if pause_ns:
            for number, ack in enumerate([*Ack, Ack.ALL, Ack.ALL]):
                self._world.spawn(self._write(number, ack))
        for broker in brokers.brokers.values():
            self._world.spawn(self._read(broker))
            self._world.spawn(self._watch(broker))

    def masters(self) -> list[Broker]:
        """
        Brokers that say that they are master.
        """
        return [
            one
            for name, one in self._brokers.brokers.items()
            if self.known.get(name, {}).get("role") == "master"
        ]

    def _ask(
        self, broker: Broker, request: dict[str, Any]
    ) -> Generator[int, None, _Answer]:
        """
        Returns the answer of a broker; ``None``: there is none in time, or its process
        died.
        """
        found: list[_Answer] = []
        run, end_ns = broker.run, self._world.now_ns + _ANSWER_NS
        broker.ask(request, found.append)
        while not found:
            yield _POLL_NS
            is_gone = broker.run != run or not broker.is_up
            if not found and (is_gone or self._world.now_ns > end_ns):
                return None
        return found[0]

    def _write(self, number: int, ack: Ack) -> Task:
        draw, names = self._draw, sorted(self._brokers.brokers)
        name, count = draw.choice(names), 0
        while self.is_writing:
            yield int(self._pause_ns * draw.random() * 2)
            count += 1
            body = f"{number}-{count}-" + "x" * draw.randrange(_BODY_MAX)
            row, _ = yield from self.append(self._brokers.brokers[name], ack, body)
            is_refused = row.outcome not in ("reached", ControlCode.NOT_REACHED.value)
            if is_refused or draw.random() < _ROAMING:
                masters = [
                    one
                    for one, now in self.known.items()
                    if now["role"] == "master" and draw.random() < 0.7
                ]
                name = draw.choice(masters or names)

    def append(
        self, broker: Broker, ack: Ack, body: str
    ) -> Generator[int, None, tuple[Appended, str]]:
        """
        Appends one record; returns the row, and the text of a refusal or how the wait
        ended.
        """
        queue_id, begin_ns = self._draw.randrange(QUEUES), self._world.now_ns
        request = {
            "request": "append",
            "ack": ack.value,
            "timeoutMs": _ACK_MS,
            "messages": [{"topic": TOPIC, "queueId": queue_id, "body": body}],
        }
        found = yield from self._ask(broker, request)
        outcome = _outcome(found)
        given = found or {}
        row = Appended(
            body.rstrip("x"),
            queue_id,
            ack.value,
            begin_ns,
            self._world.now_ns,
            broker.name,
            outcome,
            given.get("masterEpoch", 0) if "offset" in given else 0,
            given.get("offset", -1),
            given.get("queueOffsets", [-1])[0],
        )
        self.rows.append(row)
        self.acked += row.is_acked and row.is_shared
        if "outcome" in given:
            return row, str(given["outcome"])
        return row, str(given["error"]["text"] if given else outcome)

    def _read(self, broker: Broker) -> Task:
        place: int | None = None
        while True:
            yield _READ_NS * self._slower
            begin_ns, run = self._world.now_ns, broker.run
            where = {} if place is None else {"offset": place}
            found = yield from self._ask(broker, {"request": "read", **where})
            if found is None or "error" in found:
                if (
                    found is not None
                    and _outcome(found) == ControlCode.OUT_OF_RANGE.value
                ):
                    # The log was cut, or begins later.
                    place = None
                continue
            place = found["nextOffset"]
            self.rows.append(
                Read(
                    broker.name,
                    run,
                    begin_ns,
                    self._world.now_ns,
                    found["confirmOffset"],
                    [
                        (one["offset"], one["body"].rstrip("x"))
                        for one in found["records"]
                    ],
                )
            )

    def _watch(self, broker: Broker) -> Task:
        while True:
            yield _STATUS_NS * self._slower
            run = broker.run
            found = yield from self._ask(broker, {"request": "status"})
            self.known.pop(broker.name, None)
            if found is None or "error" in found:
                continue
            (now,) = found["nodes"]
            self.known[broker.name] = now
            self.rows.append(
                Status(
                    broker.name,
                    run,
                    self._world.now_ns,
                    now["brokerId"] or 0,
                    now["role"],
                    now["masterEpoch"] or 0,
                    now["syncStateSet"],
                    now["minOffset"] or 0,
                    now["endOffset"] or 0,
                )
            )


def _outcome(found: _Answer) -> str:
    if found is None:
        return "lost"
    if "error" in found:
        return str(found["error"]["code"])
    return str(found["outcome"])
