"""
The signer of a client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from lib.access_fixture import guarded

from pystore.access.roles import UserRole
from pystore.access.signer import RequestSigner
from pystore.access.users import User
from pystore.remoting.binding import CHALLENGE
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.reply import Reply
from pystore.remoting.server import RemotingServer
from pystore.remoting.signature import Credentials, is_signed_by


def test_each_request_is_signed_with_the_credentials_of_its_moment() -> None:
    """
    A connection outlives a secret.
    """
    secrets: Iterator[str] = iter(["secret one", "secret one", "secret two"])
    user = User("u", ("secret two", "secret one"), frozenset(UserRole))

    async def main() -> None:
        signer = RequestSigner(lambda: Credentials("u", next(secrets)))
        async with (
            guarded({"u": user}) as server,
            RemotingClient(signs=signer.sign) as client,
        ):
            request = RemotingCommand(RequestCode.BROKER_HEARTBEAT)
            for secret in ("secret one", "secret two"):
                assert 0 == (await client.call(server.address, request)).code
                assert is_signed_by(server.carried_out[-1], secret)

    asyncio.run(main())


def test_a_server_without_challenges_gets_signed_requests_that_nothing_binds() -> None:
    """
    As RocketMQ's.
    """
    taken: list[RemotingCommand] = []

    def take(request: RemotingCommand, _: Connection) -> Reply:
        taken.append(request)
        return Reply()

    async def main() -> None:
        async with RemotingServer({7: take}) as server:
            host, port = await server.start()
            own = Credentials("u", "a secret")
            signer = RequestSigner(lambda: own)
            async with RemotingClient(signs=signer.sign) as client:
                answer = await client.call(f"{host}:{port}", RemotingCommand(7))
                assert ResponseCode.SUCCESS == answer.code
        assert is_signed_by(taken[0], "a secret")
        assert CHALLENGE not in taken[0].ext_fields

    asyncio.run(main())
