"""
Many brokers in one process, each on a connection of its own to one controller.

Usage: brokers_child.py HOST:PORT SETS BROKERS KIND, which is java or pystore; then it
executes commands (`child.py`). A broker starts with the requests of RocketMQ's brokers:
1012, 1013, 1003, a heartbeat, and 1002 if there is no master yet. The frames of
heartbeats are made once but for their opaque number and the ends of the log, which
differ in each.
"""

from __future__ import annotations

import asyncio
import struct
import sys
import threading
import time
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from child import serve

from pystore.controller.model.commands import Recovery
from pystore.controller.model.replies import Done, NextBrokerId
from pystore.controller.protocol.calls import (
    Answer,
    ApplyBrokerId,
    Call,
    CallRefused,
    CallUnanswered,
    ElectMaster,
    GetNextBrokerId,
    GetReplicaInfo,
    MasterInfo,
    RegisterBroker,
    SendHeartbeat,
)
from pystore.controller.protocol.client_codec import answer_of, command_of
from pystore.controller.protocol.extensions import HeartbeatExtension
from pystore.remoting.codes import ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.framing import CommandReader, encode_frame
from pystore.replicaset import Incarnation

__all__ = ["Brokers"]

_CLUSTER = "cluster"
_TICK_S = 0.01
_PAUSE_S = 0.05
_CONNECTING = 200
_LONG_S = 60.0
_INCARNATION = Incarnation(1, bytes(16))
_LENGTH = struct.Struct(">i")
_PREFIX = struct.Struct(">iI")
_ASKED = 1  # opaque number
_BEAT = 1_000_000_000
"""Opaque number, and ends of the log, in the first heartbeat; all later ones have as
many digits."""

_BUSY = CallRefused(ResponseCode.SYSTEM_BUSY, "too many requests at once")
_T = TypeVar("_T")


class _Broker(asyncio.Protocol):
    """
    One broker. It has one request at a time.
    """

    def __init__(self, name: str, *, is_java: bool) -> None:
        self._name = name
        self._is_java = is_java
        self._address = ""
        self._reader = CommandReader()
        self._received = bytearray()
        self._answer: asyncio.Future[RemotingCommand] | None = None
        self._broker_id = 0
        self._beat = b""
        self.sent = self.answered = 0

    async def listen(self) -> None:
        """
        The address at which it receives notifications of the master.
        """
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        self._address = f"{host}:{port}"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """
        Called when the connection to the controller is made.
        """
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """
        Receives answers. Those to heartbeats are only counted: there are thousands
        each second.
        """
        self._received += data
        while len(self._received) >= _PREFIX.size:
            size = _LENGTH.unpack_from(self._received)[0] + _LENGTH.size
            if len(self._received) < size:
                return
            frame = self._received[:size]
            del self._received[:size]
            if self._answer is None:
                self.answered += 1
                continue
            self._reader.feed(frame)
            command = self._reader.take()
            assert command is not None
            if command.opaque == _ASKED:
                self._answer.set_result(command)
                self._answer = None
            else:
                self.answered += 1

    def send_beat(self) -> None:
        """
        Sends a heartbeat, once the broker has registered.
        """
        if not self._beat:
            return
        number = _BEAT + self.sent
        self._transport.write(self._beat % ((number,) * self._beat.count(b"%d")))
        self.sent += 1

    async def call(self, request: Call) -> Answer:
        """
        Returns the answer to a request, and repeats the request until there is one.
        """
        while True:
            self._answer = answer = asyncio.get_running_loop().create_future()
            command = replace(command_of(request, 0), opaque=_ASKED)
            self._transport.write(encode_frame(command))
            found = answer_of(request, await answer)
            if not (isinstance(found, CallUnanswered) or found == _BUSY):
                return found
            await asyncio.sleep(_PAUSE_S)

    async def start(self) -> None:
        """
        Starts with an empty store, and returns when the broker knows its master.
        """
        await self._get_id()
        recovery = None if self._is_java else Recovery(_INCARNATION, "boot")
        answer = await self.call(
            RegisterBroker(
                _CLUSTER, self._name, self._broker_id, self._address, recovery
            )
        )
        assert isinstance(answer, MasterInfo), answer
        self._beat = self._heartbeat(0)
        self.send_beat()
        while answer.master is None:
            found = await self.call(ElectMaster(_CLUSTER, self._name, self._broker_id))
            if isinstance(found, MasterInfo):
                answer = found
            else:
                # Another broker of the set is being elected.
                assert isinstance(found, CallRefused), found
                await asyncio.sleep(_PAUSE_S)
        # No broker knows an epoch before its controller.
        self._beat = self._heartbeat(answer.master_epoch)

    def begin_unasked(self) -> None:
        """
        Makes the heartbeats of a broker with a master, without a request: for a server
        that answers anything.
        """
        self._broker_id = 1
        self._beat = self._heartbeat(1)

    def _heartbeat(self, epoch: int) -> bytes:
        """
        Returns the frame of a heartbeat, with ``%d`` for each number that differs.
        """
        extension = (
            None if self._is_java else HeartbeatExtension(_INCARNATION, "boot", _BEAT)
        )
        beat = SendHeartbeat(
            _CLUSTER,
            self._name,
            self._broker_id,
            self._address,
            epoch,
            _BEAT,
            _BEAT,
            extension=extension,
        )
        frame = encode_frame(replace(command_of(beat, 0), opaque=_BEAT))
        return frame.replace(b"%d" % _BEAT, b"%d")

    async def _get_id(self) -> None:
        while not self._broker_id:
            answer = await self.call(GetNextBrokerId(_CLUSTER, self._name))
            assert isinstance(answer, NextBrokerId), answer
            broker_id = answer.broker_id
            apply = ApplyBrokerId(_CLUSTER, self._name, broker_id, f"{self._address};1")
            found = await self.call(apply)
            if isinstance(found, Done):
                self._broker_id = broker_id
            else:
                # Another broker of the set took the same id first.
                assert isinstance(found, CallRefused), found
                assert found.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID, found

    async def epoch(self) -> int:
        """
        Returns the epoch of its set's master; at least 1.
        """
        found = await self.call(GetReplicaInfo(self._name))
        assert isinstance(found, MasterInfo), found
        assert found.master is not None, self._name
        return found.master_epoch


class Brokers:
    """
    The brokers, in an event loop of their own.

    Args:
        address: of the controller.
        sets: number of sets.
        brokers: number of brokers of each set.
        is_java: whether they send only RocketMQ's fields.
    """

    def __init__(self, address: str, sets: int, brokers: int, *, is_java: bool) -> None:
        self._address = address
        self._brokers = [
            _Broker(f"set-{number // brokers}", is_java=is_java)
            for number in range(sets * brokers)
        ]
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._beating: asyncio.Task[None] | None = None

    def connect(self) -> int:
        """
        Connects each broker by its own connection; returns the number of brokers.
        """
        return self._do(self._connect())

    def start(self, at_once: int) -> float:
        """
        Starts this number of brokers at once, and returns the seconds until each knows
        its master. A registered broker sends a heartbeat each second, until `rest`.
        """
        return self._do(self._start(at_once))

    def start_unasked(self) -> None:
        """
        Sends the heartbeats of all brokers without any other request.
        """
        for one in self._brokers:
            one.begin_unasked()
        self._loop.call_soon_threadsafe(self._begin_beating)

    def beats(self) -> int:
        """
        Returns the number of heartbeats that were answered so far.
        """
        return sum(one.answered for one in self._brokers)

    def rest(self) -> int:
        """
        Ends the heartbeats, and waits for the outstanding answers. Returns the newest
        epoch of a master: 1, if no master was replaced.
        """
        return self._do(self._rest())

    def _do(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_LONG_S)

    async def _connect(self) -> int:
        host, _, port = self._address.rpartition(":")
        limit = asyncio.Semaphore(_CONNECTING)

        async def connect(one: _Broker) -> None:
            await one.listen()
            async with limit:
                await self._loop.create_connection(lambda: one, host, int(port))

        await asyncio.gather(*map(connect, self._brokers))
        return len(self._brokers)

    async def _start(self, at_once: int) -> float:
        limit = asyncio.Semaphore(at_once)

        async def start(one: _Broker) -> None:
            async with limit:
                await one.start()

        began_s = time.perf_counter()
        self._begin_beating()
        await asyncio.gather(*map(start, self._brokers))
        return time.perf_counter() - began_s

    def _begin_beating(self) -> None:
        self._beating = self._loop.create_task(self._beat())

    async def _beat(self) -> None:
        began_s, turn, count = self._loop.time(), 0, len(self._brokers)
        while True:
            while turn < (self._loop.time() - began_s) * count:
                self._brokers[turn % count].send_beat()
                turn += 1
            await asyncio.sleep(_TICK_S)

    async def _rest(self) -> int:
        assert self._beating
        self._beating.cancel()
        await asyncio.gather(self._beating, return_exceptions=True)
        async with asyncio.timeout(_LONG_S):
            while self.beats() < sum(one.sent for one in self._brokers):
                await asyncio.sleep(_TICK_S)
        return max([await one.epoch() for one in self._brokers])


def main() -> None:
    """
    Executes commands.
    """
    address, sets, count, kind = sys.argv[1:]
    brokers = Brokers(address, int(sets), int(count), is_java=kind == "java")
    serve(
        {
            "connect": brokers.connect,
            "start": brokers.start,
            "start_unasked": brokers.start_unasked,
            "beats": brokers.beats,
            "rest": brokers.rest,
        }
    )


if __name__ == "__main__":
    main()
