"""
Threads that append with `all-synced`, a few more with `all`, and write down what was
acknowledged. Every other one waits for each append, the rest have a few under way.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable

from pystore.core.results import Appended
from pystore.errors import FencedError, UnavailableError
from pystore.ha.insync.ack import Ack
from pystore.ha.master.append_future import AppendFuture
from pystore.ha.replica import Replica
from pystore.message.message import Message

__all__ = ["THREADS", "THREADS_ALL", "WINDOW", "Appenders"]

THREADS = 64
"""So many threads ask for `all-synced`."""

THREADS_ALL = 8
"""And so many more for `all`, which survives kills as well, but no power cuts."""

WINDOW = 5
"""So many appends of one thread are under way."""

_WAIT_MS = 3_000
_BODY_MAX = 700
_REST_S = 0.005


class Appenders:
    """
    Append until they are told to rest, or the mastership is over.

    Args:
        replica: the master.
        acks: a file, open for appending: a line per acknowledged record, written
            after the acknowledgement: offset, size, key.
        name: of this mastership; keys begin with it.
        failed: is told of what should not have happened.
    """

    def __init__(
        self,
        replica: Replica,
        acks: int,
        name: str,
        failed: Callable[[BaseException], object],
    ) -> None:
        self._replica = replica
        self._acks = acks
        self._name = name
        self._failed = failed
        self._resting = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True)
            for number in range(THREADS + THREADS_ALL)
        ]
        for thread in self._threads:
            thread.start()

    def rest(self) -> None:
        """
        Waits until no thread appends any more.
        """
        self._resting.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        try:
            self._keep_appending(number)
        except FencedError:
            # The mastership is over: the new master appends.
            return
        except BaseException as error:
            # Whatever it was: a thread that vanishes would hide it.
            self._failed(error)

    def _keep_appending(self, number: int) -> None:
        draw = random.Random(f"{self._name} {number}")
        ack = Ack.ALL_SYNCED if number < THREADS else Ack.ALL
        append = self._submit if number % 2 else self._append
        count = 0
        while not self._resting.is_set():
            made = WINDOW if number % 2 else 1
            keys = [f"{self._name}-{number}-{count + one}" for one in range(made)]
            messages = [
                Message(
                    "Topic",
                    key.encode().rjust(draw.randrange(1, _BODY_MAX), b"\x01"),
                    queue_id=number % 8,
                    keys=key,
                )
                for key in keys
            ]
            try:
                append(messages, keys, ack)
            except UnavailableError:
                # Too few are in sync; nothing more was appended.
                self._resting.wait(_REST_S)
            count += made

    def _append(self, messages: list[Message], keys: list[str], ack: Ack) -> None:
        for message, key in zip(messages, keys, strict=True):
            done = self._replica.append(message, ack, _WAIT_MS)
            if done.is_reached:
                self._write(done.appended, key)

    def _submit(self, messages: list[Message], keys: list[str], ack: Ack) -> None:
        futures: list[AppendFuture] = []
        try:
            for message in messages:
                futures.append(self._replica.submit(message, ack))
        finally:
            # Those that were made are answered for, whatever became of the next one.
            settled = self._replica.wait_all(futures, _WAIT_MS)
            for future, one, key in zip(futures, settled, keys, strict=False):
                if one.is_reached:
                    self._write(future.appended, key)

    def _write(self, appended: Appended, key: str) -> None:
        offset, end = appended.offset, appended.end
        os.write(self._acks, f"{offset} {end - offset} {key}\n".encode())
