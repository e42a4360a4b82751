"""
The history of a run: what was asked, answered and read, and when.

A row is one JSON object of one line. Times are nanoseconds of the monotonic clock,
which all machines of a run share.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType

__all__ = ["Appended", "Caused", "History", "Read", "Row", "Status", "rows_of"]


@dataclass(frozen=True, slots=True)
class Appended:
    """
    One record that a writer asked a broker to append.

    Attributes:
        body: which no other record has.
        queue_id: of its queue.
        ack: that was asked for.
        begin_ns: before the request.
        end_ns: after the answer, or when there was none.
        broker: name.
        outcome: ``reached``, the code of a refusal, or ``lost``: no answer.
        epoch: of the mastership that appended it.
        offset: in the log.
        queue_offset: in its queue.
    """

    body: str
    queue_id: int
    ack: str
    begin_ns: int
    end_ns: int
    broker: str
    outcome: str
    epoch: int = 0
    offset: int = -1
    queue_offset: int = -1

    @property
    def is_acked(self) -> bool:
        """
        Whether the ack was reached.
        """
        return self.outcome == "reached"

    @property
    def is_shared(self) -> bool:
        """
        Whether the ack is that of the whole set.
        """
        return self.ack.startswith("all")


@dataclass(frozen=True, slots=True)
class Read:
    """
    What one process of a broker returned as confirmed.

    Attributes:
        broker: name.
        run: number of the process.
        begin_ns: before the request.
        end_ns: after the answer.
        confirm: confirm offset.
        records: offset and body of each record.
    """

    broker: str
    run: int
    begin_ns: int
    end_ns: int
    confirm: int
    records: list[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Status:
    """
    What one process of a broker said of itself.

    Attributes:
        broker: name.
        run: number of the process.
        at_ns: after the answer.
        broker_id: its id; 0: none yet.
        role: its role.
        epoch: that it follows or leads.
        members: of its SyncStateSet.
        begin: of its log.
        end: of its log.
    """

    broker: str
    run: int
    at_ns: int
    broker_id: int
    role: str
    epoch: int
    members: list[int]
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Caused:
    """
    What was done to the set.

    Attributes:
        name: what.
        begin_ns: when it began.
        end_ns: when it was over.
    """

    name: str
    begin_ns: int
    end_ns: int


Row = Appended | Read | Status | Caused
_KINDS: dict[str, type[Row]] = {
    one.__name__: one for one in (Appended, Read, Status, Caused)
}


class History:
    """
    Writes rows to a file. A context manager; any thread.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._lock = threading.Lock()
        self.acked = 0

    def __enter__(self) -> History:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, *rows: Row) -> None:
        """
        Adds rows.
        """
        lines = [json.dumps([type(one).__name__, asdict(one)]) + "\n" for one in rows]
        with self._lock:
            self._file.writelines(lines)
            self.acked += sum(
                isinstance(one, Appended) and one.is_acked and one.is_shared
                for one in rows
            )

    @staticmethod
    def now_ns() -> int:
        """
        Returns the time of a row.
        """
        return time.monotonic_ns()


def rows_of(path: Path) -> Iterator[Row]:
    """
    Yields the rows of a file, in its order.
    """
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            name, values = json.loads(line)
            kind = _KINDS[name]
            if kind is Read:
                values["records"] = [tuple(one) for one in values["records"]]
            assert {one.name for one in fields(kind)} == values.keys()
            yield kind(**values)
