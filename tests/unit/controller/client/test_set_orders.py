"""
Orders about the members of a set, to a controller on a socket and to a master.
"""

from __future__ import annotations

import asyncio

import pytest
from lib.controller.controller_server import Running, SpokenBroker, running
from lib.remoting.virtual_time_loop import run, until

from pystore.controller.client.client import ControllerClient
from pystore.controller.client.set_descriptions import describe_sets
from pystore.controller.client.set_orders import (
    SetOrderRefused,
    change_learner,
    clean_broker,
    hand_mastership_over,
)
from pystore.controller.protocol.set_descriptions import SetDescription
from pystore.errors import UnavailableError
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.fields import decode_fields, encode_fields
from pystore.remoting.operator_headers import HandOverRequest, HandOverResponse
from pystore.remoting.reply import Reply
from pystore.remoting.server import RemotingServer

SET = ("cluster", "set")


async def _seen(client: ControllerClient) -> SetDescription:
    (page,) = [one async for one in describe_sets(client)]
    (one,) = page.sets
    return one


async def _three(at: Running) -> list[SpokenBroker]:
    """
    Three brokers; the first one is the master, and alone in sync.
    """
    found = [SpokenBroker(at, number) for number in (1, 2, 3)]
    for one in found:
        await one.join()
    await found[0].elect()
    return found


async def _ended(at: Running, broker: SpokenBroker) -> None:
    await broker.die()
    context, number = at.controller.context, broker.broker_id
    await until(lambda: not context.liveness.heard(SET, number, context.clock_ns()))


def test_a_dead_broker_is_cleaned_with_the_version_that_was_seen() -> None:
    """And again: the set does not have it any more."""

    async def main() -> None:
        async with running() as at, ControllerClient([at.address]) as client:
            brokers = await _three(at)
            await _ended(at, brokers[2])
            seen = await _seen(client)
            assert await clean_broker(client, *SET, 3, seen.version)
            after = await _seen(client)
            assert [1, 2] == [one.broker_id for one in after.brokers]
            assert await clean_broker(client, *SET, 3, after.version)
            assert after.version == (await _seen(client)).version

    run(main())


def test_a_broker_of_a_set_that_changed_since_is_not_cleaned() -> None:
    """What the requester decided on may not hold any more: here it came back."""

    async def main() -> None:
        async with running() as at, ControllerClient([at.address]) as client:
            brokers = await _three(at)
            await _ended(at, brokers[2])
            seen = await _seen(client)
            assert await change_learner(client, *SET, 2, seen.version, is_learner=True)
            assert not await clean_broker(client, *SET, 3, seen.version)
            after = await _seen(client)
            assert [1, 2, 3] == [one.broker_id for one in after.brokers]
            assert [False, True, False] == [one.is_learner for one in after.brokers]
            assert not await change_learner(
                client, *SET, 2, seen.version, is_learner=False
            )

    run(main())


def test_a_live_broker_is_not_cleaned() -> None:
    """The refusal is told, with its reason."""

    async def main() -> None:
        async with running() as at, ControllerClient([at.address]) as client:
            await _three(at)
            seen = await _seen(client)
            with pytest.raises(SetOrderRefused, match=r"refuses 1011, 2009: .* alive"):
                await clean_broker(client, *SET, 2, seen.version)

            async def make_learner() -> None:
                # The refusal is noted in the record of the set, soon after it was told.
                is_done = False
                while not is_done:
                    version = (await _seen(client)).version
                    is_done = await change_learner(
                        client, *SET, 1, version, is_learner=True
                    )

            with pytest.raises(SetOrderRefused, match=r"refuses 7102, 2005: .* master"):
                await make_learner()

    run(main())


def test_a_controller_that_leads_no_more_has_refused_nothing() -> None:
    """Another one is asked by the next call."""

    async def main() -> None:
        async with running() as at, ControllerClient([at.address]) as client:
            await _three(at)
            at.controller.context.leader = None
            with pytest.raises(UnavailableError):
                await clean_broker(client, *SET, 2, 1)

    run(main())


def test_controllers_of_another_record_store_are_asked_for_nothing() -> None:
    """They would clean a broker of another cluster."""

    async def main() -> None:
        async with running() as at:
            await _three(at)
            client = ControllerClient([at.address], cluster_id="a" * 32)
            async with client:
                with pytest.raises(UnavailableError):
                    await clean_broker(client, *SET, 2, 1)

    run(main())


def test_a_master_is_asked_for_its_successor() -> None:
    """Its refusal is told; it is asked once only."""

    async def main() -> None:
        asked: list[int] = []

        async def answer(request: RemotingCommand, _: Connection) -> Reply:
            asked.append(decode_fields(HandOverRequest, request.ext_fields).broker_id)
            if asked[-1] == 3:
                return Reply(ResponseCode.SYSTEM_ERROR, "broker 3 is not in sync")
            return Reply(ext_fields=encode_fields(HandOverResponse(7)))

        server = RemotingServer({RequestCode.HAND_OVER: answer})
        host, port = await server.start("127.0.0.1", 0)
        try:
            async with RemotingClient() as client:
                assert 7 == await hand_mastership_over(client, f"{host}:{port}", 2)
                with pytest.raises(SetOrderRefused, match="broker 3 is not in sync"):
                    await hand_mastership_over(client, f"{host}:{port}", 3)
        finally:
            await server.close()
        assert [2, 3] == asked

    asyncio.run(main())
