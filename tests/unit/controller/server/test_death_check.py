"""
Evidence that a broker is dead, from real sockets (C3).
"""

from __future__ import annotations

import asyncio
import socket

import pytest
from lib.controller.broker_set_driver import start
from lib.controller.controller_server import Running, SpokenBroker, running
from lib.remoting.virtual_time_loop import move, run, until

from pystore.controller.model.state import SetState
from pystore.records.memory import MemorySpace
from pystore.remoting.codes import ResponseCode
from pystore.remoting.connection import Connection
from pystore.remoting.server import RemotingServer

CLUSTER = ("cluster", "set")


def _state(at: Running) -> SetState:
    leader = at.controller.context.leader
    assert leader is not None
    return leader.sets.state(CLUSTER)


def _is_heard(at: Running, broker_id: int) -> bool:
    context = at.controller.context
    found = context.liveness.heard(CLUSTER, broker_id, context.clock_ns())
    return found is not None


async def _set_of(at: Running) -> tuple[SpokenBroker, SpokenBroker]:
    """
    Returns the master and another member; both listen. The controller has led for so
    long that it may replace a master.
    """
    first, second = SpokenBroker(at, 1), SpokenBroker(at, 2)
    for one in (first, second):
        await one.listen()
        await one.join()
    await first.elect()
    both = frozenset({first.member, second.member})
    assert 0 == (await first.alter(both, 1, _state(at).agreed.set_epoch)).code
    move(10_001)
    await first.beat(epoch=1)
    await second.beat()
    return first, second


async def _wait_s(seconds: float) -> None:
    """
    Lets questions be asked and answered meanwhile.
    """
    for _ in range(int(seconds * 10)):
        move(100)
        await asyncio.sleep(0.002)


def test_a_connection_that_ends_alone_replaces_no_master() -> None:
    """
    RMQ-R241: its process answers at its address, and connects again.
    """

    async def main() -> None:
        async with running() as at:
            first, second = await _set_of(at)
            await first.hang_up()
            for _ in range(9):
                await _wait_s(1)
                await second.beat()
            assert (first.member, 1) == (_state(at).master, _state(at).epoch)
            assert 0 < (await first.beat(epoch=1)).length_ms
            move(9_000)
            await second.beat()
            assert 1 == _state(at).epoch

    run(main())


def test_a_master_that_nobody_listens_for_is_replaced_at_once() -> None:
    """
    C3: its lease is waited for nevertheless: a firewall refuses, too.
    """

    async def main() -> None:
        async with running() as at:
            first, second = await _set_of(at)
            await first.die()
            await until(lambda: _state(at).epoch == 2)
            assert second.member == _state(at).master
            assert {first.member} == _state(at).unreleased

    run(main())


def test_nobody_is_asked_for_a_broker_without_a_record() -> None:
    """Anyone can send a heartbeat with any address."""

    async def main() -> None:
        asked: list[Connection] = []
        async with RemotingServer({}, opened=asked.append) as server, running() as at:
            host, port = await server.start()
            address = f"{host}:{port}"
            known = SpokenBroker(at, 1, address=address)
            stranger = SpokenBroker(at, 2, address=address)
            await known.join()
            await stranger.beat()
            await stranger.hang_up()
            await _wait_s(1)
            assert not asked
            await known.hang_up()
            await until(lambda: asked)

    run(main())


def test_a_process_that_ends_after_the_first_question_is_found_dead() -> None:
    """
    The system closes the sockets of a killed process one after another.
    """

    async def main() -> None:
        async with running() as at:
            first, second = await _set_of(at)
            await first.hang_up()
            await _wait_s(0.1)
            assert 1 == _state(at).epoch
            await first.die()
            await _wait_s(2)
            await until(lambda: _state(at).master == second.member)

    run(main())


def test_another_process_at_the_address_is_evidence() -> None:
    """
    It names its incarnation.
    """

    async def main() -> None:
        async with running() as at:
            first, second = await _set_of(at)
            first.recovery = start(2)
            await first.hang_up()
            await until(lambda: _state(at).master == second.member)

    run(main())


def test_a_master_that_lost_power_gives_its_id_to_its_next_process() -> None:
    """
    B17: its connection stays open, so the next one is refused until the address was
    asked.
    """

    async def main() -> None:
        async with running() as at:
            first, _ = await _set_of(at)
            first.recovery = start(2)
            again = SpokenBroker(at, 1, start(2), first.address)
            taken = ResponseCode.CONTROLLER_BROKER_ID_INVALID
            assert taken == await again.register()
            await until(lambda: not _is_heard(at, 1))
            assert 0 == await again.register()
            assert 1 < _state(at).epoch

    run(main())


def test_a_clone_elsewhere_waits_for_the_living_process() -> None:
    """
    B17: it asks again and again, and changes nothing.
    """

    async def main() -> None:
        async with running() as at:
            first, _ = await _set_of(at)
            clone = SpokenBroker(at, 1, start(3), "127.0.0.1:9")
            for _ in range(5):
                assert ResponseCode.CONTROLLER_BROKER_ID_INVALID == (
                    await clone.register()
                )
                await clone.beat()
                await _wait_s(0.5)
            assert (first.member, 1) == (_state(at).master, _state(at).epoch)
            assert 0 == await first.register()
            assert 0 < (await first.beat(epoch=1)).length_ms

    run(main())


@pytest.mark.parametrize("address", ["nonsense", "no-such-host.invalid:1", ""])
def test_an_address_that_leads_nowhere_is_no_evidence(address: str) -> None:
    """
    Its heartbeat has to expire.
    """

    async def main() -> None:
        async with running() as at:
            first, second = await _set_of(at)
            first.address = address
            await first.beat(epoch=1)
            await first.hang_up()
            await _wait_s(3)
            await second.beat()
            assert 1 == _state(at).epoch
            move(7_000)
            await until(lambda: _state(at).master == second.member)

    run(main())


def test_a_process_that_does_not_answer_is_dead_after_its_silence_only() -> None:
    """
    It may be stopped for a moment (SIGSTOP).
    """

    async def main() -> None:
        async with running() as at:
            first, second = await _set_of(at)
            with socket.create_server(("127.0.0.1", 0)) as mute:
                host, port = mute.getsockname()
                first.address = f"{host}:{port}"
                await first.beat(epoch=1)
                await first.hang_up()
                await _wait_s(5)
                await second.beat()
                assert 1 == _state(at).epoch
                await _wait_s(6)
                await until(lambda: _state(at).master == second.member)

    run(main())


def test_a_new_leader_that_saw_the_death_elects_at_once() -> None:
    """
    C3: controller and master die together; the other controller heard both.
    """

    async def main() -> None:
        space = MemorySpace()
        async with running(space) as old:
            first, second = await _set_of(old)
            async with running(space, leads=False) as other:
                twins = [
                    SpokenBroker(other, one.broker_id, one.recovery, one.address)
                    for one in (first, second)
                ]
                for one in twins:
                    await one.beat(epoch=1)
                await first.die()
                await twins[0].die()
                old.controller.context.leader = None
                assert other.controller.context.leader is None
                await _stop(old)
                await until(lambda: other.controller.leads)
                await until(lambda: _state(other).epoch == 2)
                assert second.member == _state(other).master

    run(main())


async def _stop(at: Running) -> None:
    for store in at.stores:
        await asyncio.to_thread(store.close)
