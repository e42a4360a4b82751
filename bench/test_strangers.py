"""
What strangers cost a controller, and those whom it knows.

The controller and the strangers are processes of their own, on loopback.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from child import Child
from contest import Figure
from controllers import Controller, controller
from machine import load
from peer_thread import LEADS_S, peer_thread
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
_ANSWER_MS = 60_000
_MIB = 2**20


class _Commits:
    """
    Changes a broker of a known set repeatedly, in a thread of its own; each change is a
    commit.

    Attributes:
        latencies: of each, in s.
        waits: how long a thread of the controller was ready during each, and had no
            processor, in s: the longest of a thread.
        late: by how much each pause between two of them was too long, in s: what the
            machine delays everything.
        memory: the controller's memory after each, in bytes.
    """

    def __init__(self, one: Controller) -> None:
        self._one = one
        self._number = 0
        self.latencies: list[float] = []
        self.waits: list[float] = []
        self.late: list[float] = []
        self.memory: list[int] = []

    def running(self) -> AbstractContextManager[None]:
        """
        Changes it as long as the block runs.
        """
        return peer_thread(self._register, self._change)

    async def _register(self, client: RemotingClient) -> None:
        header = ApplyBrokerIdRequest("cluster", _SET, 1, "127.0.0.1:1;1")
        end_s = time.monotonic() + LEADS_S
        while await self._ask(client, RequestCode.CONTROLLER_APPLY_BROKER_ID, header):
            # It does not lead yet.
            assert time.monotonic() < end_s
            await asyncio.sleep(_EVERY_S)

    async def _change(self, client: RemotingClient) -> None:
        self._number += 1
        header = ChangeBrokerRequest(_SET, 1, "cluster", priority=self._number)
        before, begun_s = self._one.waits_s(), time.perf_counter()
        code = await self._ask(client, RequestCode.CHANGE_BROKER, header)
        taken_s = time.perf_counter() - begun_s
        assert not code, code
        self.latencies.append(taken_s)
        waits = self._one.waits_s()
        self.waits.append(max(waits[one] - before.get(one, 0.0) for one in waits))
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


class _Disk:
    """
    Syncs a few bytes repeatedly, in a thread of its own: what the disk delays commits
    of anyone.

    Attributes:
        syncs: how long each took, in s.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.syncs: list[float] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """
        Syncs as long as the block runs.
        """
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()

    def _run(self) -> None:
        with self._path.open("wb", buffering=0) as file:
            while not self._over.wait(_EVERY_S):
                begun_s = time.perf_counter()
                file.write(bytes(4096))
                os.fdatasync(file.fileno())
                self.syncs.append(time.perf_counter() - begun_s)


class _Row(NamedTuple):
    """
    One kind of visits.

    Attributes:
        kind: of them.
        grown: the controller's memory, in MiB.
        latencies: of the commits of others, in s.
        waits: as in `_Commits`.
        late: the longest delay of a sleep, in s.
        sync: the slowest sync of another file, in s.
    """

    kind: str
    grown: float
    latencies: list[float]
    waits: list[float]
    late: float
    sync: float


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
    rows: list[_Row] = []

    def run() -> None:
        root = folder()
        with (
            controller(root / "records") as one,
            Child("strangers_child.py", one.address, strangers) as others,
        ):
            commits, disk = _Commits(one), _Disk(root / "synced")
            with commits.running(), disk.running():
                before = one.resident_bytes()
                for kind in KINDS:
                    first, sync = len(commits.waits), len(disk.syncs)
                    others.call("visit", kind, seconds)
                    grown = max(commits.memory[first:], default=before) - before
                    row = _Row(
                        kind,
                        grown / _MIB,
                        commits.latencies[first:],
                        commits.waits[first:],
                        max(commits.late[first:], default=0.0),
                        max(disk.syncs[sync:], default=0.0),
                    )
                    rows.append(row)

    benchmark.pedantic(run, rounds=1)

    for row in rows:
        what = f"{strangers} strangers, {row.kind}, for {seconds:g} s"
        late = sorted(row.latencies)
        net = (each - one for each, one in zip(row.latencies, row.waits, strict=False))
        values = {
            "commits": f"{len(late)}",
            "median": f"{late[len(late) // 2] * 1000:.1f} ms" if late else "none",
            "99 of 100": f"{late[len(late) * 99 // 100] * 1000:.1f} ms" if late else "",
            "slowest but for the wait of a thread of the controller for a processor": (
                f"{max(net, default=0.0) * 1000:.0f} ms"
            ),
            "longest delay of a sleep": f"{row.late * 1000:.0f} ms",
            "slowest sync of another file": f"{row.sync * 1000:.0f} ms",
            "load": load(),
        }
        table.at_most(
            f"{what}: memory that they add", 64, Figure((row.grown,)), "MiB", {}
        )
        worst = Figure((late[-1] * 1000 if late else 0.0,))
        table.at_most(f"{what}: slowest commit of others", 200, worst, "ms", values)
