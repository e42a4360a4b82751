"""
A master whose futures coroutines await and functions wait for, with a real slave.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lib.ha.master_fixture import MasterStage, Slave
from lib.store.stores import message
from pystore.ha.insync.ack import Ack, AckResult
from pystore.ha.master.append_future import AppendFuture
from pystore.replicaset import AgreedSet, Incarnation, Member

__all__ = [
    "WAIT_MS",
    "WAIT_S",
    "Calls",
    "awaited",
    "completer_threads",
    "pair",
    "stalled",
    "submit",
    "until",
]

WAIT_S = 20
WAIT_MS = 1000 * WAIT_S
TWO = AgreedSet(frozenset({Member(1), Member(2, Incarnation(1))}), 1)
"""A set whose member 2 acks only when a test starts it."""


@contextmanager
def pair(root: Path, **changes: Any) -> Iterator[MasterStage]:
    """A master with one slave that is in its set."""
    with (
        MasterStage(root / "master", **changes) as stage,
        Slave(stage.service.address, root / "slave"),
    ):
        stage.controller.wait_for({1, 2})
        yield stage
        stage.service.close()


@contextmanager
def stalled(root: Path, **changes: Any) -> Iterator[MasterStage]:
    """A master of a set of two whose slave does not run, and whose set stays."""
    with MasterStage(root / "master", agreed=TWO, ask=None, **changes) as stage:
        yield stage


def submit(stage: MasterStage, ack: Ack = Ack.ALL, number: int = 1) -> AppendFuture:
    """Appends one record."""
    return stage.service.submit(message(number), ack)


def completer_threads() -> list[str]:
    """The threads of completers that run now."""
    names = [one.name for one in threading.enumerate()]
    return sorted(one for one in names if one.startswith("pystore-ha-acks"))


async def awaited(future: AppendFuture) -> AckResult:
    """Awaits a future, as a coroutine of its own."""
    return await future


async def until(is_so: Any) -> None:
    """Lets the event loop run until something is so."""
    async with asyncio.timeout(WAIT_S):
        while not is_so():
            await asyncio.sleep(0.001)


class Calls:
    """
    Functions that were called for acks.
    """

    def __init__(self) -> None:
        self.results: list[AckResult] = []
        self.threads: set[str] = set()
        self._more = threading.Condition()

    def __call__(self, future: AppendFuture) -> None:
        """Notes a result."""
        with self._more:
            self.results.append(future.result())
            self.threads.add(threading.current_thread().name)
            self._more.notify_all()

    def wait_for(self, count: int) -> None:
        """Waits until so many results are here."""
        with self._more:
            assert self._more.wait_for(lambda: len(self.results) >= count, WAIT_S)
