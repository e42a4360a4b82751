"""
Looks for evidence that a broker whose connection has ended is dead.

A connection can end while its process lives, so that alone replaces no master. Evidence
is that nothing listens at the address of the broker, or that another process answers
there. A process that does not answer, or whose name has no address, is neither: only
its silence counts. A process that registers with the id of a living one makes the
controller ask, too: after a power cut the old connection stays open.

Source: C3; RMQ-R241; docs/controller.md, time.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Coroutine
from enum import Enum
from functools import partial

from pystore.controller.liveness.heartbeats import Heartbeat
from pystore.controller.model.state import SetKey
from pystore.controller.protocol.extensions import process_of
from pystore.controller.server.context import ControllerContext
from pystore.errors import PystoreError
from pystore.net.address import parse_address
from pystore.net.tls import ClientTls
from pystore.remoting.admission import Signs
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection

__all__ = ["DeathCheck"]

_PAUSES_S = (0.0, 0.02, 0.1, 0.5, 1.0)
"""
Before each question; the last one repeats. The system closes the sockets of a killed
process one after another, so the first question may find one that still listens.
"""

_TIMEOUT_MS = 1_000
_AT_ONCE = 64


class DeathCheck:
    """
    The questions of one controller. For one event loop.

    Args:
        context: of the controller.
        ended: called with the set of each broker that was found dead.
        signs: signs the questions; ``None``: nothing is signed.
        tls: of the connections; ``None``: plain bytes.
    """

    def __init__(
        self,
        context: ControllerContext,
        ended: Callable[[SetKey], object],
        signs: Signs[Connection] | None = None,
        *,
        tls: ClientTls | None = None,
    ) -> None:
        self._client = partial(RemotingClient, signs=signs, tls=tls)
        self._context = context
        self._ended = ended
        self._tasks: dict[tuple[SetKey, int], asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)

    def suspect(self, key: SetKey, broker_id: int) -> None:
        """
        Asks for a broker until it is connected again, found dead, or silent for too
        long. One without a record is no master, so nobody is asked: anyone can send its
        heartbeats, with any address.
        """
        if self._context.is_registered(key, broker_id) is False:
            return
        before = self._tasks.get((key, broker_id))
        if before is not None:
            before.cancel()
        self._start(key, broker_id, self._run(key, broker_id))

    def claimed(self, key: SetKey, broker_id: int) -> None:
        """
        Asks once for a broker whose id another process wants.
        """
        if (key, broker_id) not in self._tasks:
            self._start(key, broker_id, self._ask_once(key, broker_id))

    async def aclose(self) -> None:
        """
        Ends all questions. Idempotent.
        """
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(
        self, key: SetKey, broker_id: int, work: Coroutine[None, None, None]
    ) -> None:
        task = asyncio.create_task(work)
        self._tasks[key, broker_id] = task
        task.add_done_callback(lambda _: self._done(key, broker_id, task))

    def _done(self, key: SetKey, broker_id: int, task: asyncio.Task[None]) -> None:
        if self._tasks.get((key, broker_id)) is task:
            del self._tasks[key, broker_id]

    async def _run(self, key: SetKey, broker_id: int) -> None:
        liveness, number = self._context.liveness, 0
        while True:
            await asyncio.sleep(_PAUSES_S[min(number, len(_PAUSES_S) - 1)])
            number += 1
            heartbeat = liveness.suspected(key, broker_id, self._context.clock_ns())
            if heartbeat is None or await self._look(key, heartbeat):
                return

    async def _ask_once(self, key: SetKey, broker_id: int) -> None:
        now_ns = self._context.clock_ns()
        heartbeat = self._context.liveness.heard(key, broker_id, now_ns)
        if heartbeat is not None:
            await self._look(key, heartbeat)

    async def _look(self, key: SetKey, heartbeat: Heartbeat) -> bool:
        """
        Returns whether the sender of a heartbeat was found dead.
        """
        async with self._slots:
            found = await _answers(heartbeat, self._client)
        if not found or _Found.UNKNOWN in found:
            return False
        is_replaced = _Found.OTHER_PROCESS in found
        liveness = self._context.liveness
        now_ns = self._context.clock_ns()
        if not liveness.end(key, heartbeat, now_ns, is_replaced=is_replaced):
            return False
        self._ended(key)
        return True


class _Found(Enum):
    """
    What is found at one address of a broker.
    """

    NOTHING = "nothing listens"
    OTHER_PROCESS = "another process answers"
    UNKNOWN = "the process may live"


async def _answers(
    heartbeat: Heartbeat, connect: Callable[[], RemotingClient]
) -> set[_Found]:
    """
    Returns what is found at the addresses of the sender of a heartbeat; empty: it has
    none.
    """
    try:
        host, port = parse_address(heartbeat.address)
        hosts = await _resolve(host, port)
    except (PystoreError, OSError):
        # The broker registered no address, or a name that leads nowhere.
        return set()
    return {await _asked(one, port, heartbeat, connect) for one in hosts}


async def _resolve(host: str, port: int) -> list[str]:
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        # A name.
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_TIMEOUT_MS / 1000):
            found = await loop.getaddrinfo(host, port)
        return sorted({str(address[0]) for *_, address in found})


async def _asked(
    host: str, port: int, heartbeat: Heartbeat, connect: Callable[[], RemotingClient]
) -> _Found:
    request = RemotingCommand(RequestCode.GET_BROKER_EPOCH_CACHE)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    # A connection that is open already would prove nothing.
    async with connect() as client:
        try:
            answer = await client.call(address, request, _TIMEOUT_MS)
            process = process_of(answer.ext_fields)
        except PystoreError as error:
            # Only a refusal says that nothing listens there.
            is_refused = isinstance(error.__cause__, ConnectionRefusedError)
            return _Found.NOTHING if is_refused else _Found.UNKNOWN
    known = heartbeat.incarnation
    is_other = None not in (process, known) and process != known
    return _Found.OTHER_PROCESS if is_other else _Found.UNKNOWN
