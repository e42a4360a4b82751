"""
What strangers cost a controller, and those whom it knows.

The controller and the strangers are processes of their own, on loopback.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from child import Child
from contest import Figure
from controllers import Controller, controller
from machine import load
from table import Table

from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.controller_headers import ApplyBrokerIdRequest
from pystore.remoting.fields import encode_fields
from pystore.remoting.operator_headers import ChangeBrokerRequest

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pytest_benchmark.fixture import BenchmarkFixture

STRANGERS = 10_000
VISIT_S = 60.0
KINDS = ("connections", "names", "half frames", "large requests")
_EVERY_S = 0.1
_SET = "known"
_LEADS_S = 60.0
_ANSWER_MS = 60_000
_MIB = 2**20


class _Commits:
    """
    Changes a broker of a known set repeatedly, in a thread of its own; each change is a
    commit.

    Attributes:
        latencies: of each, in s.
        late: by how much each pause between two of them was too long, in s: what the
            machine delays everything.
        memory: the controller's memory after each, in bytes.
    """

    def __init__(self, one: Controller) -> None:
        self._one = one
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self.begun = threading.Event()
        self.error: BaseException | None = None
        self.latencies: list[float] = []
        self.late: list[float] = []
        self.memory: list[int] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """
        Changes it as long as the block runs.
        """
        self._thread.start()
        try:
            assert self.begun.wait(_LEADS_S), self.error
            yield
        finally:
            self._over.set()
            self._thread.join()
        if self.error is not None:
            raise self.error

    async def _run(self) -> None:
        try:
            async with RemotingClient() as client:
                await self._register(client)
                self.begun.set()
                await self._change(client)
        except BaseException as error:
            # Any error: the thread of the bench raises it.
            self.error = error

    async def _register(self, client: RemotingClient) -> None:
        header = ApplyBrokerIdRequest("cluster", _SET, 1, "127.0.0.1:1;1")
        end_s = time.monotonic() + _LEADS_S
        while await self._ask(client, RequestCode.CONTROLLER_APPLY_BROKER_ID, header):
            # It does not lead yet.
            assert time.monotonic() < end_s
            await asyncio.sleep(_EVERY_S)

    async def _change(self, client: RemotingClient) -> None:
        number = 0
        while not self._over.is_set():
            number += 1
            header = ChangeBrokerRequest(_SET, 1, "cluster", priority=number)
            begun_s = time.perf_counter()
            code = await self._ask(client, RequestCode.CHANGE_BROKER, header)
            taken_s = time.perf_counter() - begun_s
            assert not code, code
            self.latencies.append(taken_s)
            self.memory.append(self._one.resident_bytes())
            pause_s = max(0.0, _EVERY_S - taken_s)
            begun_s = time.perf_counter()
            await asyncio.sleep(pause_s)
            self.late.append(time.perf_counter() - begun_s - pause_s)

    async def _ask(
        self, client: RemotingClient, code: int, header: DataclassInstance
    ) -> int:
        request = RemotingCommand(code, ext_fields=encode_fields(header))
        return (await client.call(self._one.address, request, _ANSWER_MS)).code


@pytest.mark.benchmark(group="strangers")
def test_strangers_take_little_memory_and_delay_no_commit(
    benchmark: BenchmarkFixture,
    folder: Callable[[], Path],
    is_smoke: bool,
    table: Table,
) -> None:
    """
    Counted: the growth of the controller's memory while 10 000 strangers connect, name
    sets that nobody knows, send half frames of 128 KiB, and begin requests of 15 MB,
    each for a minute. Timed: a commit every 0.1 s about a set that it knows.
    """
    strangers, seconds = (200, 0.5) if is_smoke else (STRANGERS, VISIT_S)
    rows: list[tuple[str, float, list[float], float]] = []

    def run() -> None:
        with (
            controller(folder()) as one,
            Child("strangers_child.py", one.address, strangers) as others,
        ):
            commits = _Commits(one)
            with commits.running():
                before = one.resident_bytes()
                for kind in KINDS:
                    first = len(commits.latencies)
                    others.call("visit", kind, seconds)
                    grown = max(commits.memory[first:], default=before) - before
                    late = max(commits.late[first:], default=0.0)
                    rows.append((kind, grown / _MIB, commits.latencies[first:], late))

    benchmark.pedantic(run, rounds=1)

    for kind, grown, latencies, paused_s in rows:
        what = f"{strangers} strangers, {kind}, for {seconds:g} s"
        late = sorted(latencies)
        values = {
            "commits": f"{len(late)}",
            "median": f"{late[len(late) // 2] * 1000:.1f} ms" if late else "none",
            "99 of 100": f"{late[len(late) * 99 // 100] * 1000:.1f} ms" if late else "",
            "longest delay of a sleep": f"{paused_s * 1000:.0f} ms",
            "load": load(),
        }
        table.at_most(f"{what}: memory that they add", 64, Figure((grown,)), "MiB", {})
        worst = Figure((late[-1] * 1000 if late else 0.0,))
        table.at_most(f"{what}: slowest commit of others", 200, worst, "ms", values)
