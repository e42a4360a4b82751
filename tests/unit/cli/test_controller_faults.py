"""
``pystore controller`` as a process that is killed at a bad moment, or crowded.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from lib.broker_process import until
from lib.controller.broker_set_driver import start
from lib.controller.controller_process import ControllerProcess
from lib.store.stores import SEGMENT

from pystore.controller.client.client import ControllerClient
from pystore.controller.identity.identity import ConfiguredIdentity
from pystore.controller.identity.negotiation import Negotiation
from pystore.controller.identity.registration import BrokerRegistration
from pystore.controller.identity.store import IdentityStore
from pystore.controller.model.replies import Done, NextBrokerId
from pystore.controller.protocol.calls import (
    ApplyBrokerId,
    ElectMaster,
    GetNextBrokerId,
    HeartbeatAnswer,
    MasterInfo,
    RegisterBroker,
    SendHeartbeat,
)
from pystore.controller.protocol.extensions import HeartbeatExtension
from pystore.remoting.codes import RequestCode
from pystore.remoting.controller_headers import GetMetadataResponse
from pystore.remoting.fields import decode_fields
from pystore.rocketmq.identity_file import BrokerIdentity
from pystore.store.commit_log import CommitLog

IDLE = 10_000
MORE = 20
KEPT = 320
"""Open files that a server leaves alone."""

DYING = """
import os, signal
from pystore.cli import main
from pystore.records.lmdb_store import LmdbStore

commit, left = LmdbStore.commit, [{count}]

def die_if_last(ops):
    left[0] -= any(op.key.startswith("controller/sets/") for op in ops)
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)

def dying(self, ops):
    if {is_done}:
        version = commit(self, ops)
        die_if_last(ops)
        return version
    die_if_last(ops)
    return commit(self, ops)

LmdbStore.commit = dying
main()
"""
"""A controller that dies with its n-th commit of a set: before it, or after it."""


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_a_broker_gets_one_id_although_the_controller_is_killed(
    tmp_path: Path, count: int, is_done: bool
) -> None:
    """
    RMQ-R28, RMQ-R230: during the application or the registration; with the commit on
    disk and no answer, or with neither. The next controller recognises the repeated
    request, and the following id is the next one.
    """
    words = ("--store", tmp_path / "records")
    script = DYING.format(count=count, is_done=is_done)
    with ControllerProcess(*words, script=script) as mortal:
        mortal.await_lead()
        registered, successor = asyncio.run(_registered(tmp_path, mortal, words))
        assert -signal.SIGKILL == mortal.wait()

    with successor:
        assert BrokerIdentity("c", "b", 1) == registered.identity
        other = asyncio.run(_next_id(successor.address))
    assert NextBrokerId(2) == other


async def _registered(
    tmp_path: Path, mortal: ControllerProcess, words: tuple[str | Path, ...]
) -> tuple[Negotiation, ControllerProcess]:
    """
    Returns how a new broker got its id, and the controller that it has in the end.
    """
    successors: list[ControllerProcess] = []

    async def pause(_: int) -> None:
        if not successors:
            successors.append(
                await asyncio.to_thread(
                    ControllerProcess, *words, listen=mortal.address
                )
            )
            await asyncio.to_thread(successors[0].await_lead)

    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        async with ControllerClient([mortal.address]) as client:
            registration = BrokerRegistration(
                Negotiation(
                    ConfiguredIdentity("c", "b", "h:1"), lambda: "h:1;1", start(1)
                ),
                IdentityStore(log.writer),
                client,
                pause,
                bool,
            )
            return await registration.run(), successors[0]


async def _next_id(address: str) -> object:
    async with ControllerClient([address]) as client:
        return await client.get_next_broker_id(GetNextBrokerId("c", "b"))


@pytest.fixture
def idle() -> Iterator[int]:
    """
    How many connections this process may have, while the test lasts: 10,000 if it can.
    """
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < IDLE + 2 * KEPT:
        pytest.skip(f"no process may have more than {most} open files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (IDLE + 2 * KEPT, most))
    yield IDLE
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))


def test_ten_thousand_idle_connections_delay_no_heartbeat(
    tmp_path: Path, idle: int
) -> None:
    """
    Where the system allows no more, one more is closed at once, with a line for the
    operator, and a master keeps its lease. When they have gone, others are served.
    """
    allowed = ("sh", "-c", f'ulimit -n {idle + KEPT + MORE}; exec "$0" "$@"')
    words = ("--store", tmp_path / "records")
    crowd: list[socket.socket] = []
    with ControllerProcess(*words, before=allowed) as controller:
        controller.await_lead()
        try:
            asyncio.run(_beside_a_crowd(controller, idle, crowd))
        finally:
            for one in crowd:
                one.close()
        controller.await_lead()
        assert 1 == sum(" refused: " in line for line in controller.said)


async def _beside_a_crowd(
    controller: ControllerProcess, idle: int, crowd: list[socket.socket]
) -> None:
    host, port = controller.address.split(":")
    async with ControllerClient([controller.address]) as client:
        beat = await _mastership(client)
        for count in (idle, idle + MORE):
            while len(crowd) < count:
                crowd.append(socket.create_connection((host, int(port)), 10))
                if len(crowd) % 100 == 0:
                    assert await _leased(client, controller.address, beat) > 0
            assert await _leased(client, controller.address, beat) > 0
        assert await asyncio.to_thread(_is_closed, crowd[-1], 20)
        assert "more open files are not allowed" in controller.wait_for(" refused: ")
        assert await _leased(client, controller.address, beat) > 0
        assert not any(_is_closed(one, 0) for one in crowd[:idle])


async def _mastership(client: ControllerClient) -> SendHeartbeat:
    """
    Returns the heartbeat of a new master.
    """
    recovery = start(1)
    assert Done() == await client.apply_broker_id(ApplyBrokerId("c", "b", 1, "h:1;1"))
    await client.register_broker(RegisterBroker("c", "b", 1, "h:1", recovery))
    beat = SendHeartbeat(
        "c", "b", 1, "h:1", epoch=0, extension=HeartbeatExtension(recovery.incarnation)
    )
    await client.heartbeat(client.known[0], beat)
    elected = await client.elect_master(ElectMaster("c", "b", 1))
    assert isinstance(elected, MasterInfo), elected
    return replace(beat, epoch=elected.master_epoch)


async def _leased(client: ControllerClient, address: str, beat: SendHeartbeat) -> int:
    answer = await client.heartbeat(address, beat)
    assert isinstance(answer, HeartbeatAnswer), answer
    assert answer.lease is not None
    return answer.lease.length_ms


def _is_closed(peer: socket.socket, wait_s: float) -> bool:
    peer.settimeout(wait_s)
    try:
        return peer.recv(1) == b""
    except ConnectionError:
        # Closed as hard as can be.
        return True
    except (TimeoutError, BlockingIOError):
        return False


def _metadata(one: ControllerProcess) -> GetMetadataResponse:
    answer = one.ask(RequestCode.CONTROLLER_GET_METADATA_INFO)
    return decode_fields(GetMetadataResponse, answer.ext_fields)


@pytest.mark.parametrize("leads", [True, False])
def test_a_controller_whose_records_are_removed_ends(
    tmp_path: Path, *, leads: bool
) -> None:
    """
    It neither grants leases over records that nobody reads again, nor makes an empty
    store where an operator is about to restore one.
    """
    records = tmp_path / "records"
    with ExitStack() as stack:
        first = stack.enter_context(ControllerProcess("--store", records))
        first.await_lead()
        last = first
        if not leads:
            last = stack.enter_context(ControllerProcess("--store", records))
            # It has opened the records once it is announced in them.
            until(lambda: last.address in (_metadata(first).peers or ""))
        records.rename(tmp_path / "away")
        last.wait_for("was removed or replaced while it was open")
        assert 3 == last.child.wait(60)
        assert 3 == first.child.wait(60)
        assert not records.exists()
