"""
What TLS handshakes that fail cost a controller, and the brokers that it knows.

The controller and the generator are processes of their own, on loopback.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from child import Child
from contest import Figure
from controllers import Controller, controller
from machine import load
from peer_thread import LEADS_S, peer_thread
from table import Table
from tls_files import VARIABLE, client_tls, make_files

from pystore.controller.model.replies import Done
from pystore.controller.protocol.calls import (
    ApplyBrokerId,
    Call,
    ElectMaster,
    MasterInfo,
    RegisterBroker,
    SendHeartbeat,
)
from pystore.controller.protocol.client_codec import answer_of, command_of
from pystore.remoting.client import RemotingClient

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

KINDS = ("first message only", "changed first message")
FAILING_S = 30.0
_EVERY_S = 0.1
_ANSWER_MS = 10_000
_CLUSTER, _SET, _ADDRESS = "cluster", "known", "127.0.0.1:1"
_CHECK = f"{_ADDRESS};1"
_MIB = 2**20
_CONFIG = """
tlsMode = "enforcing"
tlsCertificate = "{files}/certificate.pem"
tlsKey = "{files}/key.pem"
tlsAuthorities = "{files}/ca.pem"
"""


class _Heartbeats:
    """
    A broker that has registered over TLS sends heartbeats, in a thread of its own.

    Attributes:
        latencies: until each was answered, in s.
        memory: the controller's memory after each, in bytes.
    """

    def __init__(self, one: Controller) -> None:
        self._one = one
        self._epoch = 0
        self.latencies: list[float] = []
        self.memory: list[int] = []

    def running(self) -> AbstractContextManager[None]:
        """
        Sends them as long as the block runs.
        """
        return peer_thread(self._register, self._repeat, client_tls())

    async def _repeat(self, client: RemotingClient) -> None:
        await self._beat(client)
        await asyncio.sleep(_EVERY_S)

    async def _register(self, client: RemotingClient) -> None:
        end_s = time.monotonic() + LEADS_S
        apply = ApplyBrokerId(_CLUSTER, _SET, 1, _CHECK)
        while not isinstance(await self._ask(client, apply), Done):
            # It does not lead yet.
            assert time.monotonic() < end_s
            await asyncio.sleep(_EVERY_S)
        register = RegisterBroker(_CLUSTER, _SET, 1, _ADDRESS)
        assert isinstance(await self._ask(client, register), MasterInfo)
        await self._beat(client)
        found = await self._ask(client, ElectMaster(_CLUSTER, _SET, 1))
        assert isinstance(found, MasterInfo), found
        self._epoch = found.master_epoch
        self.latencies.clear()
        self.memory.clear()

    async def _beat(self, client: RemotingClient) -> None:
        beat = SendHeartbeat(_CLUSTER, _SET, 1, _ADDRESS, self._epoch, 0, 0)
        begun_s = time.perf_counter()
        answer = await client.call(self._one.address, command_of(beat, 0), _ANSWER_MS)
        self.latencies.append(time.perf_counter() - begun_s)
        assert answer.code == 0, answer
        self.memory.append(self._one.resident_bytes())

    async def _ask(self, client: RemotingClient, call: Call) -> object:
        command = command_of(call, 0)
        return answer_of(
            call, await client.call(self._one.address, command, _ANSWER_MS)
        )


class _Row(NamedTuple):
    """
    One kind of handshakes.

    Attributes:
        kind: of them.
        rate: how many failed in a second.
        grown: the controller's memory, in MiB.
        latencies: of the heartbeats, in s.
    """

    kind: str
    rate: float
    grown: float
    latencies: list[float]


@pytest.mark.benchmark(group="failed handshakes")
def test_failed_handshakes_delay_no_heartbeat(
    benchmark: BenchmarkFixture,
    folder: Callable[[], Path],
    is_smoke: bool,
    table: Table,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Counted: handshakes that fail in a second, as many as one generator makes, each
    reset after the answer, and the growth of the controller's memory. Timed: a
    heartbeat of a member every 0.1 s, over TLS.
    """
    seconds = 0.5 if is_smoke else FAILING_S
    files, config = tmp_path / "tls", tmp_path / "controller.toml"
    make_files(files)
    monkeypatch.setenv(VARIABLE, str(files))
    rows: list[_Row] = []

    def run() -> None:
        config.write_text(_CONFIG.format(files=files))
        with (
            controller(folder() / "records", "-c", config) as one,
            Child("handshakes_child.py", one.address) as others,
        ):
            beats = _Heartbeats(one)
            with beats.running():
                before = one.resident_bytes()
                for kind in KINDS:
                    first = len(beats.memory)
                    rate = others.call("make", kind, seconds)
                    grown = max(beats.memory[first:], default=before) - before
                    late = beats.latencies[first:]
                    rows.append(_Row(kind, rate, grown / _MIB, late))

    benchmark.pedantic(run, rounds=1)

    for row in rows:
        what = f"TLS handshakes that fail, {row.kind}, for {seconds:g} s"
        late = sorted(row.latencies)
        values = {
            "heartbeats": f"{len(late)}",
            "median": f"{late[len(late) // 2] * 1000:.1f} ms",
            "load": load(),
        }
        thousand = Figure((1000 / row.rate,))
        rate = {"rate": f"{row.rate:,.0f}/s"}
        table.at_most(f"{what}: a thousand of them", 1, thousand, "s", rate)
        worst = Figure((late[-1] * 1000,))
        table.at_most(f"{what}: slowest heartbeat", 200, worst, "ms", values)
        grown = Figure((row.grown,))
        table.at_most(f"{what}: memory that they add", 16, grown, "MiB", {})
