"""
A process that has a store open for writing while it is damaged.
"""

from __future__ import annotations

import os
import pickle
import signal
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from damage.stores import Kept, opened

from pystore import Message, Store
from pystore.errors import PystoreError

__all__ = ["Outcome", "RunningWriter"]

_APPENDS = 2


class Outcome(NamedTuple):
    """
    How the process ended.

    Attributes:
        records: by offset, what it acknowledged as synced after the damage.
        error: the text of its error; empty: it closed the store, or was killed.
    """

    records: dict[int, bytes]
    error: str


class RunningWriter:
    """
    Opens a store in another process, and appends to it. A context manager, which kills
    the process if it still runs.

    Args:
        root: of the store.
        kept: what it is.

    Attributes:
        records: by offset, what it acknowledged as synced.
        may_abort: LMDB may end the process: its pages were damaged below it.
    """

    may_abort = False

    def __init__(self, root: Path, kept: Kept) -> None:
        to_child, self._orders = os.pipe()
        answers, from_child = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._orders)
                _serve(root, kept, to_child, from_child)
            finally:
                os._exit(1)
        os.close(to_child)
        os.close(from_child)
        self._answers = os.fdopen(answers, "rb")
        self.records: dict[int, bytes] = pickle.load(self._answers)

    def finish(self, *, is_killed: bool) -> Outcome:
        """
        Lets the process append again, and close the store or be killed.
        """
        os.write(self._orders, b"k" if is_killed else b"c")
        records: dict[int, bytes] = {}
        error = "it died"
        while self._answers.peek(1):
            answer = pickle.load(self._answers)
            if isinstance(answer, str):
                error = answer
            else:
                records |= answer
        return Outcome(records, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.kill(self._pid, signal.SIGKILL)
        status = os.waitpid(self._pid, 0)[1]
        os.close(self._orders)
        self._answers.close()
        # LMDB and the live page are mapped: of a file that was cut short the system
        # gives no page. LMDB aborts where its pages contradict each other.
        ends = {0, signal.SIGKILL, signal.SIGBUS}
        if self.may_abort:
            ends |= {signal.SIGABRT}
        assert status & 0xFF7F in ends or error is not None, status


def _serve(root: Path, kept: Kept, orders: int, answers: int) -> None:
    def tell(answer: object) -> None:
        os.write(answers, pickle.dumps(answer))

    store = opened(root, has_queues=kept.has_queues, has_crc=kept.has_crc)
    log = store.log if isinstance(store, Store) else store

    def append(number: int) -> dict[int, bytes]:
        message = Message(f"t{number % 2}", b"later %d " % number * 20)
        offset = log.append(message, ack="leader-synced").offset
        return {offset: log.read(offset).data}

    begun: dict[int, bytes] = {}
    for number in range(_APPENDS):
        begun |= append(number)
    store.keep()
    tell(begun)
    order = os.read(orders, 1)
    try:
        for number in range(_APPENDS):
            tell(append(number))
            store.keep()
        if order == b"c":
            store.close()
        tell("")
    except PystoreError as error:
        # The parent judges it.
        tell(str(error))
    os.kill(os.getpid(), signal.SIGKILL)
