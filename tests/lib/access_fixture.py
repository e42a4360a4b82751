"""
Users, and servers that ask a gate before each handler.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from pystore.access.gate import Gate
from pystore.access.mode import AccessMode
from pystore.access.roles import UserRole
from pystore.access.signer import RequestSigner
from pystore.access.users import User
from pystore.remoting.binding import RequestBinding
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.prepared_reply import PreparedReply
from pystore.remoting.reply import Reply
from pystore.remoting.server import RemotingServer
from pystore.remoting.signature import Credentials

__all__ = ["GuardedServer", "bound", "client_of", "guarded", "secret_of", "users"]


def secret_of(name: str) -> str:
    """
    The secret of a user of these tests.
    """
    return f"the secret of {name}"


def users() -> dict[str, User]:
    """
    One user of each role.
    """
    return {
        one.value: User(one.value, (secret_of(one.value),), frozenset({one}))
        for one in UserRole
    }


def bound(binding: RequestBinding, request: RemotingCommand) -> RemotingCommand:
    """
    The request with the fields that bind it.
    """
    fields = {**request.ext_fields, **binding.fields(request)}
    return replace(request, ext_fields=fields)


def client_of(name: str, secret: str = "") -> RemotingClient:
    """
    A client that signs as a user.
    """
    own = Credentials(name, secret or secret_of(name))
    return RemotingClient(signs=RequestSigner(lambda: own).sign)


@dataclass
class GuardedServer:
    """
    A server with a handler for every code.

    Attributes:
        users: who may send.
        mode: of its gate.
        carried_out: the requests that reached their handler.
        repeated: the ends of the heartbeats that were not decoded.
        said: what the gate said.
        address: where it listens.
    """

    users: Mapping[str, User] | None = field(default_factory=users)
    mode: AccessMode = AccessMode.ENFORCING
    carried_out: list[RemotingCommand] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    address: str = ""

    def take(self, request: RemotingCommand, peer: Connection) -> Reply:
        """
        Answers any request. Heartbeats may be repeated with another ``end``.
        """
        self.carried_out.append(request)
        if request.code == RequestCode.BROKER_HEARTBEAT:
            peer.expect_repeats(request, ["end"], self._take_repeat)
        return Reply()

    def _take_repeat(self, numbers: Sequence[int]) -> PreparedReply | None:
        _, end = numbers
        if end < 0:
            # The handler has to answer it.
            return None
        self.repeated.append(end)
        return PreparedReply(Reply())


@asynccontextmanager
async def guarded(
    users_now: Mapping[str, User] | None = None, *, are_known: bool = True
) -> AsyncIterator[GuardedServer]:
    """
    A server for as long as a test lasts.
    """
    server = GuardedServer()
    if users_now is not None:
        server.users = users_now
    if not are_known:
        server.users = None
    gate = Gate(
        lambda: server.mode,
        lambda: server.users,
        server.said.append,
        asyncio.get_running_loop().time,
    )
    handlers = {code.value: server.take for code in RequestCode}
    async with RemotingServer(handlers, admission=gate) as listening:
        host, port = await listening.start()
        server.address = f"{host}:{port}"
        yield server
