"""
The question for all sets, as a client of the controllers asks it.
"""

from __future__ import annotations

import pytest
from lib.controller.controller_server import SpokenBroker, running
from lib.remoting.virtual_time_loop import run

from pystore.controller.client.client import ControllerClient
from pystore.controller.client.set_descriptions import describe_sets, page_of
from pystore.controller.model.commands import ApplyId
from pystore.controller.protocol.set_descriptions import (
    SetsPage,
    encode_sets,
)
from pystore.errors import RemoteViolation, UnavailableError
from pystore.remoting.codes import ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.fields import encode_fields
from pystore.remoting.operator_headers import (
    DescribeSetsRequest,
    DescribeSetsResponse,
)


async def _all(client: ControllerClient) -> list[SetsPage]:
    return [one async for one in describe_sets(client)]


def test_the_leader_describes_all_sets_page_by_page() -> None:
    """Found by any controller of the list."""

    async def main() -> None:
        async with running() as at, ControllerClient([at.address]) as client:
            await SpokenBroker(at, 1).join()
            leader = at.controller.context.leader
            assert leader is not None
            for number in range(700):
                names = ("cluster", f"set-{number:03}")
                await leader.ask(names, ApplyId(1, "host:1;1"))
            found = await _all(client)
            sets = [each for one in found for each in one.sets]
            assert [500, 201] == [len(one.sets) for one in found]
            assert "set" == sets[0].name
            assert sets[0].brokers[0].is_alive
            assert [(1, "host:1")] == [
                (one.broker_id, one.address) for one in sets[1].brokers
            ]
            assert all(0 <= one.led_ms < 60_000 for one in found)

    run(main())


def test_without_a_leader_nothing_is_told() -> None:
    """The caller learns why, and never guesses."""

    async def main() -> None:
        async with ControllerClient(["127.0.0.1:1"], timeout_ms=500) as client:
            with pytest.raises(UnavailableError):
                await _all(client)

    run(main())


def test_a_leader_that_lost_its_term_is_looked_for_again() -> None:
    """It refuses, and the next question begins with who leads."""

    async def main() -> None:
        async with running() as at, ControllerClient([at.address]) as client:
            await _all(client)
            leader, at.controller.context.leader = at.controller.context.leader, None
            with pytest.raises(UnavailableError, match="does not lead"):
                await _all(client)
            assert client.leader is None
            at.controller.context.leader = leader
            assert 1 == len(await _all(client))

    run(main())


def test_controllers_of_another_record_store_are_not_believed() -> None:
    """Whatever they describe, it is not this cluster."""

    async def main() -> None:
        async with running() as at:
            await SpokenBroker(at, 1).join()
            client = ControllerClient([at.address], cluster_id="a" * 32)
            async with client:
                with pytest.raises(UnavailableError):
                    await _all(client)
                assert "a" * 32 in client.stranger

    run(main())


def test_a_leader_that_does_not_answer_is_looked_for_again() -> None:
    """Its address may lead to no controller any more."""

    async def main() -> None:
        async with running() as at:
            client = ControllerClient([at.address], timeout_ms=500)
            await _all(client)
            assert client.leader == at.address
        async with client:
            with pytest.raises(UnavailableError):
                await _all(client)
            assert client.leader is None

    run(main())


def test_a_page_is_a_value() -> None:
    """The next request follows from it."""
    fields = encode_fields(DescribeSetsResponse(7, True, "c", "b"))  # noqa: FBT003
    answer = RemotingCommand(0, ext_fields=fields, body=encode_sets([], [("c", "x")]))

    page, request = page_of(answer)

    assert SetsPage(7, may_replace=True, damaged=(("c", "x"),)) == page
    assert DescribeSetsRequest("c", "b") == request


def test_a_refusal_and_an_invalid_answer_are_no_pages() -> None:
    """RocketMQ's controllers have no such request."""
    code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    with pytest.raises(UnavailableError, match="refuses 7118, 3: no such code"):
        page_of(RemotingCommand(code, remark="no such\ncode"))
    with pytest.raises(RemoteViolation):
        page_of(RemotingCommand(0, body=b"[]"))
