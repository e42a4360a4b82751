"""
The gate of a server, over real sockets.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from lib.access_fixture import bound, client_of, guarded, secret_of, users

from pystore.access.mode import AccessMode
from pystore.access.roles import ROLES_OF_CODE, UserRole
from pystore.access.users import User
from pystore.remoting.binding import CHALLENGE, RequestBinding
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.framing import encode_frame
from pystore.remoting.signature import Credentials, signed

CODES = [one for one in RequestCode if one is not RequestCode.GET_CHALLENGE]
STRANGERS: dict[str, Callable[[], RemotingClient]] = {
    "unsigned": RemotingClient,
    "of an unknown user": lambda: client_of("another"),
    "with another secret": lambda: client_of("operator", "not the secret"),
}


@pytest.mark.parametrize("role", list(UserRole), ids=lambda role: role.value)
def test_each_role_may_send_its_codes_and_no_other(role: UserRole) -> None:
    """
    Every code, as a request and one-way; what is refused reaches no handler.
    """

    async def main() -> None:
        async with guarded() as server, client_of(role.value) as client:
            for code in CODES:
                request = RemotingCommand(code)
                answer = await client.call(server.address, request)
                await client.send(server.address, request)
                # The answer of another request: the one-way request is over.
                await client.call(server.address, RemotingCommand(code))
                is_allowed = role in ROLES_OF_CODE.get(code, frozenset())
                assert 3 * is_allowed == len(server.carried_out), code
                expected = ResponseCode.SUCCESS if is_allowed else 16
                assert expected == answer.code, code
                assert all(one.user == role.value for one in server.carried_out)
                server.carried_out.clear()

    asyncio.run(main())


@pytest.mark.parametrize("stranger", list(STRANGERS))
def test_a_stranger_learns_only_that_it_is_refused(stranger: str) -> None:
    """
    Of every code, also of codes that no server has; one-way requests change nothing.
    """

    async def main() -> None:
        async with guarded() as server, STRANGERS[stranger]() as client:
            told = set()
            for code in [*CODES, 12345]:
                request = RemotingCommand(code)
                answer = await client.call(server.address, request)
                await client.send(server.address, request)
                told.add((answer.code, answer.remark, answer.body))
            await client.call(server.address, RemotingCommand(1))
            assert {(ResponseCode.NO_PERMISSION, "the request is refused", b"")} == told
            assert [] == server.carried_out

    asyncio.run(main())


def test_a_permissive_gate_carries_requests_out_and_says_what_it_would_refuse() -> None:
    """
    So the mode can be changed without an outage.
    """

    async def main() -> None:
        async with guarded() as server, RemotingClient() as stranger:
            server.mode = AccessMode.PERMISSIVE
            request = RemotingCommand(RequestCode.CLEAN_BROKER_DATA)
            answer = await stranger.call(server.address, request)
            assert ResponseCode.SUCCESS == answer.code
            async with client_of("broker") as broker:
                await broker.call(server.address, request)
            assert ["", ""] == [one.user for one in server.carried_out]
            assert [
                "request of 127.0.0.1 would be refused: it is not signed"
            ] == server.said

    asyncio.run(main())


def test_an_open_gate_looks_at_no_signature() -> None:
    """
    And names no user, whatever a request says.
    """

    async def main() -> None:
        async with guarded() as server, client_of("operator", "a lie") as client:
            server.mode = AccessMode.OFF
            request = RemotingCommand(RequestCode.CLEAN_BROKER_DATA)
            assert 0 == (await client.call(server.address, request)).code
            assert "" == server.carried_out[0].user

    asyncio.run(main())


def test_before_the_users_are_known_a_request_is_to_be_tried_again() -> None:
    """
    It is no refusal: the peer may be a member.
    """

    async def main() -> None:
        async with guarded(are_known=False) as server, client_of("broker") as client:
            request = RemotingCommand(RequestCode.BROKER_HEARTBEAT)
            answer = await client.call(server.address, request)
            assert ResponseCode.SERVICE_NOT_AVAILABLE == answer.code
            assert [] == server.carried_out

    asyncio.run(main())


def test_both_secrets_of_a_user_are_valid_while_one_replaces_the_other() -> None:
    """
    And the former one no longer, once it is retired.
    """
    rotated = User("b", ("the new secret", "the old secret"), frozenset(UserRole))

    async def main() -> None:
        async with guarded({"b": rotated}) as server:
            for secret, is_valid in (
                ("the new secret", True),
                ("the old secret", True),
            ):
                assert is_valid is await is_answered(server.address, secret)
            server.users = {"b": replace(rotated, secrets=("the new secret",))}
            assert not await is_answered(server.address, "the old secret")
            assert await is_answered(server.address, "the new secret")

    async def is_answered(address: str, secret: str) -> bool:
        async with client_of("b", secret) as client:
            request = RemotingCommand(RequestCode.BROKER_HEARTBEAT)
            return (await client.call(address, request)).code == 0

    asyncio.run(main())


class Tap:
    """
    Reads what a client sends to a server, and can send it again.
    """

    def __init__(self, address: str) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self.sent = b""

    async def serve(self, reader: asyncio.StreamReader, writer: object) -> None:
        """
        Passes the bytes of one connection on, in both directions.
        """
        assert isinstance(writer, asyncio.StreamWriter)
        far_reader, far_writer = await asyncio.open_connection(self._host, self._port)

        async def back() -> None:
            while chunk := await far_reader.read(1 << 16):
                writer.write(chunk)

        task = asyncio.create_task(back())
        while chunk := await reader.read(1 << 16):
            self.sent += chunk
            far_writer.write(chunk)
        task.cancel()
        far_writer.close()
        writer.close()


async def replayed(address: str, sent: bytes, count: int) -> list[int]:
    """
    Sends captured bytes on another connection; returns the codes of the answers.
    """
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    codes = []
    for _ in range(count):
        length = int.from_bytes(await reader.readexactly(4))
        frame = await reader.readexactly(length)
        head = frame[4 : 4 + int.from_bytes(frame[1:4])]
        codes.append(json.loads(head)["code"])
    writer.close()
    return codes


def test_captured_requests_are_refused_on_another_connection() -> None:
    """
    All bytes of a client, its question for a challenge included, sent again.
    """

    async def main() -> None:
        async with guarded() as server:
            tap = Tap(server.address)
            between = await asyncio.start_server(tap.serve, "127.0.0.1", 0)
            host, port = between.sockets[0].getsockname()
            async with client_of("operator") as client:
                for _ in range(3):
                    request = RemotingCommand(RequestCode.CLEAN_BROKER_DATA)
                    answer = await client.call(f"{host}:{port}", request)
                    assert 0 == answer.code
            between.close()
            server.carried_out.clear()
            codes = await replayed(server.address, tap.sent, 4)
            assert [0, 16, 16, 16] == codes
            assert [] == server.carried_out

    asyncio.run(main())


@pytest.mark.parametrize("is_bound", [False, True])
def test_an_unbound_request_is_taken_unless_its_user_is_bound(is_bound: bool) -> None:
    """
    RocketMQ's peers bind nothing; a user of pystore's alone can be told to.
    """
    name = "operator"
    user = replace(users()[name], is_bound=is_bound)
    own = Credentials(name, secret_of(name))
    request = signed(RemotingCommand(RequestCode.CLEAN_BROKER_DATA), own)

    async def main() -> None:
        async with guarded({name: user}) as server:
            codes = await replayed(server.address, encode_frame(request), 1)
            assert [16 if is_bound else 0] == codes
            assert (not is_bound) == bool(server.carried_out)
            # And the one that binds is taken in both cases.
            async with client_of(name) as client:
                bare = RemotingCommand(RequestCode.CLEAN_BROKER_DATA)
                assert 0 == (await client.call(server.address, bare)).code

    asyncio.run(main())


def beat(end: int) -> RemotingCommand:
    """
    A heartbeat.
    """
    return RemotingCommand(
        RequestCode.BROKER_HEARTBEAT, ext_fields={"end": str(end), "name": "b"}
    )


def test_repeated_heartbeats_are_verified_without_being_decoded() -> None:
    """
    Until the user, its secret or its role has gone: the next one is refused.
    """
    user = users()["broker"]

    async def main() -> None:
        async with guarded({"broker": user}) as server, client_of("broker") as client:
            for end in range(9):
                assert 0 == (await client.call(server.address, beat(end))).code
            assert list(range(1, 9)) == server.repeated
            # The handler has to answer this one, and it is not counted as sent before.
            assert 0 == (await client.call(server.address, beat(-1))).code
            assert 0 == (await client.call(server.address, beat(9))).code
            for changed in (
                {},
                {"broker": replace(user, secrets=("another secret",))},
                {"broker": replace(user, roles=frozenset({UserRole.READER}))},
            ):
                server.users = changed
                server.repeated.clear()
                server.carried_out.clear()
                assert 16 == (await client.call(server.address, beat(10))).code
                await client.send(server.address, beat(11))
                # With its answer the one-way request is over, too.
                assert 16 == (await client.call(server.address, beat(11))).code
                server.users = {"broker": user}
                assert 0 == (await client.call(server.address, beat(12))).code
                assert 1 == len(server.repeated) + len(server.carried_out)

    asyncio.run(main())


def test_a_repeated_heartbeat_is_taken_once() -> None:
    """
    The same bytes on the same connection, and later numbers before earlier ones.
    """
    own = Credentials("broker", secret_of("broker"))

    async def main() -> None:
        async with guarded() as server:
            host, _, port = server.address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))

            async def answer_to(frame: bytes) -> tuple[int, dict[str, str]]:
                writer.write(frame)
                size = int.from_bytes(await reader.readexactly(4))
                head = json.loads((await reader.readexactly(size))[4:])
                return head["code"], head.get("extFields", {})

            ask = RemotingCommand(RequestCode.GET_CHALLENGE)
            binding = RequestBinding((await answer_to(encode_frame(ask)))[1][CHALLENGE])
            frames = [
                encode_frame(signed(bound(binding, beat(number)), own))
                for number in range(5)
            ]
            assert 0 == (await answer_to(frames[0]))[0]
            assert 0 == (await answer_to(frames[1]))[0]
            assert 0 == (await answer_to(frames[3]))[0]
            assert [1, 3] == server.repeated
            for old in frames[:4]:
                assert 16 == (await answer_to(old))[0]
            assert 0 == (await answer_to(frames[4]))[0]
            assert [1, 3, 4] == server.repeated
            assert 1 == len(server.carried_out)
            writer.close()

    asyncio.run(main())
