"""
A server of the remoting protocol, its handlers, and peers that speak byte by byte.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pystore.remoting.codes import ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection, Handler
from pystore.remoting.controller_headers import BrokerHeartbeat
from pystore.remoting.fields import decode_fields
from pystore.remoting.framing import CommandReader, encode_frame
from pystore.remoting.limits import RemotingLimits
from pystore.remoting.reply import Reply
from pystore.remoting.server import RemotingServer

ECHO, FAIL, HANG, HUGE, LEAVE, ASK_BACK, BEAT = 10, 11, 12, 13, 14, 15, 904
GIVE_UP, STAY = 16, 17


async def echo(request: RemotingCommand, _: Connection) -> Reply:
    """
    Replies with the body of the request.
    """
    return Reply(0, request.remark, request.ext_fields, request.body)


async def fail(*_: object) -> Reply:
    """
    A handler with a mistake in it.
    """
    raise LookupError("no such thing\nat line 7")


async def hang(*_: object) -> Reply:
    """
    Never comes back.
    """
    return await asyncio.Event().wait() and Reply()


def beat(request: RemotingCommand, _: Connection) -> Reply:
    """
    Needs a header, and waits for nothing.
    """
    decode_fields(BrokerHeartbeat, request.ext_fields)
    return Reply()


async def huge(*_: object) -> Reply:
    """
    Says more than a frame holds.
    """
    return Reply(body=bytes(17 << 20))


async def leave(*_: object) -> Reply:
    """
    As a broker that shuts down.
    """
    return Reply(ResponseCode.GO_AWAY)


async def give_up(*_: object) -> Reply:
    """
    What it waits for is cancelled.
    """
    answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    answer.cancel()
    return await answer


async def stay(*_: object) -> Reply:
    """
    Ends only some time after its cancellation.
    """
    for _turn in range(99):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # A mistake that libraries make.
            continue
    return Reply()


async def ask_back(request: RemotingCommand, peer: Connection) -> Reply:
    """
    Sends a request to the requester.
    """
    answer = await peer.call(RemotingCommand(ECHO, body=request.body + b"!"), 1000)
    return Reply(body=answer.body)


HANDLERS: Mapping[int, Handler] = {
    ECHO: echo,
    FAIL: fail,
    HANG: hang,
    BEAT: beat,
    HUGE: huge,
    LEAVE: leave,
    ASK_BACK: ask_back,
    GIVE_UP: give_up,
    STAY: stay,
}


@dataclass
class Talk:
    """
    A server, its connections, and its lines for people.

    Attributes:
        hanging: how many requests of the code `HANG` have begun.
    """

    server: RemotingServer
    address: tuple[str, int]
    said: list[str]
    closed: list[Connection]
    peers: list[Peer] = field(default_factory=list)
    hanging: int = 0

    async def hang(self, *_: object) -> Reply:
        """
        Never comes back.
        """
        self.hanging += 1
        return await hang()

    async def connect(self) -> Peer:
        """
        Returns a peer that speaks frames.
        """
        peer = Peer(*await asyncio.open_connection(*self.address))
        self.peers.append(peer)
        return peer


@dataclass
class Peer:
    """
    The other side, byte by byte.
    """

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    commands: CommandReader = field(default_factory=CommandReader)

    async def receive(self) -> RemotingCommand | None:
        """
        Returns the next response; ``None``: the connection was closed.
        """
        while (command := self.commands.take()) is None:
            try:
                data = await self.reader.read(1 << 16)
            except ConnectionError:
                # Closed while bytes of ours were on their way.
                return None
            if not data:
                return None
            self.commands.feed(data)
        return command

    async def ask(self, request: RemotingCommand) -> RemotingCommand | None:
        """
        Returns the response to a request.
        """
        self.writer.write(encode_frame(request))
        return await self.receive()


@asynccontextmanager
async def serving(limits: RemotingLimits | None = None) -> AsyncIterator[Talk]:
    """
    A server for as long as a test lasts.
    """
    said: list[str] = []
    closed: list[Connection] = []
    handlers = dict(HANDLERS)
    server = RemotingServer(handlers, limits, say=said.append, closed=closed.append)
    talk = Talk(server, await server.start(), said, closed)
    handlers[HANG] = talk.hang
    try:
        yield talk
    finally:
        for peer in talk.peers:
            peer.writer.close()
        await server.close()
