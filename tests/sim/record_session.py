"""
A session with the record store, as a controller or AutoRecovery in a virtual process
has it.

Each call is a message to the servers (`sim.record_servers`) and waits for the
answer, which may be lost. Terms and campaigns are the product's own
(`pystore.records.leadership`).
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sim.kernel import Kernel

from pystore.errors import (
    ClosedError,
    PystoreError,
    SessionLostError,
    UnavailableError,
    UnknownOutcomeError,
)
from pystore.records.leadership import Leadership, Made
from pystore.records.ops import KeyOps, Op
from pystore.records.record_store import StoredRecord
from pystore.records.term import Term

__all__ = ["Answers", "RecordSession"]

_PATIENCE_NS = 3_000_000_000
_LOOK_S = 0.05
_MS = 1_000_000


class Answers:
    """
    The answers of the servers to this process.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._numbers = itertools.count(1)
        self._found: dict[int, Any] = {}
        self._asked: set[int] = set()

    def arrived(self, number: int, answer: Any) -> None:
        """
        Takes an answer.
        """
        if number in self._asked:
            self._found[number] = answer

    def ask(self, session: int, verb: str, *given: Any, more_ns: int = 0) -> Any:
        """
        Asks, and returns the answer; ``None``: there was none in time.

        Args:
            session: which asks.
            verb: what it asks for.
            *given: its arguments.
            more_ns: how much longer than others the answer may take.

        Raises:
            PystoreError: which the answer is.
        """
        number = next(self._numbers)
        self._asked.add(number)
        self._kernel.say("ask", number, session, verb, given)
        self._kernel.wait(lambda: number in self._found, _PATIENCE_NS + more_ns)
        self._asked.discard(number)
        answer = self._found.pop(number, None)
        if isinstance(answer, PystoreError):
            raise answer
        return answer


class RecordSession:
    """
    See `pystore.records.record_store.RecordStore`.

    Args:
        kernel: of this process.
        answers: of this process.
        number: of the session, different from all others.
        session_ms: the servers end it when they heard nothing for so long.
    """

    reads_locally = False

    def __init__(
        self, kernel: Kernel, answers: Answers, number: int, session_ms: int
    ) -> None:
        self._kernel, self._answers, self._number = kernel, answers, number
        self._session_ms = session_ms
        self._is_closed = False
        if answers.ask(number, "open", session_ms) is None:
            raise UnavailableError("the record store is unreachable; try again")
        self._leadership = Leadership(
            self._commit, self._get, self._await_absence, lambda: session_ms * _MS
        )
        threading.Thread(target=self._ping, name="session", daemon=True).start()

    def get(self, key: str) -> StoredRecord | None:
        """
        See `RecordStore.get`.
        """
        return self._get(key)

    def scan(
        self, prefix: str = "", after: str = "", limit: int | None = None
    ) -> list[StoredRecord]:
        """
        See `RecordStore.scan`.
        """
        found: list[StoredRecord] = self._read("scan", prefix, after, limit)
        return found

    def commit(self, ops: Sequence[Op]) -> int | None:
        """
        See `RecordStore.commit`.
        """
        return self._leadership.commit(ops)

    def wait(self, token: int, timeout_s: float, space: str = "") -> int:
        """
        See `RecordStore.wait`.
        """
        timeout_ns = int(timeout_s * 1_000 * _MS)
        found: int = self._read("wait", token, timeout_ns, space, more_ns=timeout_ns)
        return found

    def campaign(self, path: str, name: str) -> Term:
        """
        See `RecordStore.campaign`.
        """
        return self._leadership.campaign(path, name)

    def close(self) -> None:
        """
        See `RecordStore.close`.
        """
        if not self._is_closed:
            self._leadership.end()
            self._is_closed = True
            self._answers.ask(self._number, "close")

    # -- inside ----------------------------------------------------------------

    def _ping(self) -> None:
        while not self._is_closed:
            try:
                self._answers.ask(self._number, "ping")
            except SessionLostError:
                # The callers of the other operations learn it, too.
                return
            time.sleep(self._session_ms / 3000)

    def _get(self, key: str) -> StoredRecord | None:
        found: StoredRecord | None = self._read("get", key)
        return found

    def _read(self, verb: str, *given: Any, more_ns: int = 0) -> Any:
        self._usable()
        answer = self._answers.ask(self._number, verb, *given, more_ns=more_ns)
        self._usable()
        if answer is None:
            raise UnavailableError("the record store is unreachable; try again")
        return answer[0]

    def _commit(self, keys: Mapping[str, KeyOps]) -> Made | None:
        self._usable()
        sent_ns = self._kernel.now_ns
        answer = self._answers.ask(self._number, "commit", dict(keys))
        if answer is None:
            raise UnknownOutcomeError(
                "the answer to a commit was lost: read its records"
            )
        return None if answer[0] is None else Made(answer[0], sent_ns)

    def _await_absence(self, path: str) -> None:
        while self._get(path) is not None:
            time.sleep(_LOOK_S)

    def _usable(self) -> None:
        if self._is_closed:
            raise ClosedError("the record store is closed")
