"""
A broker whose store cannot be opened: it tells the controllers so, and opens the store
when it can.

Its heartbeats are those of a process that registers nowhere, so it is neither a member
nor elected. They say that the replica is not lost.

Source: docs/autorecovery.md, *An ill replica*; B1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pystore.broker.config import NodeConfig
from pystore.broker.ill_store import IllStore
from pystore.controller.client.client import ControllerClient
from pystore.controller.protocol.calls import SendHeartbeat
from pystore.controller.protocol.extensions import HeartbeatExtension
from pystore.ha.slave.replica_log import ReplicaLog

__all__ = ["IllReplica"]

_AGAIN_S = 10.0
"""Between two attempts to open; after a repair it is tried at once."""


class IllReplica:
    """
    One such broker. For one event loop.

    Args:
        config: of the broker.
        store: that cannot be opened.
        client: to the controllers.
        say: receives one line for the operator.
    """

    def __init__(
        self,
        config: NodeConfig,
        store: IllStore,
        client: ControllerClient,
        say: Callable[[str], object],
    ) -> None:
        self._config = config
        self._store = store
        self._client = client
        self._say = say

    async def healed(self) -> ReplicaLog:
        """
        Returns the log once it could be opened. If it is cancelled, it is not open.

        Raises:
            PystoreError: no repair helps any more.
        """
        loop, mended = asyncio.get_running_loop(), asyncio.Event()
        self._store.mended = lambda: loop.call_soon_threadsafe(mended.set)
        self._tell()
        beating = asyncio.create_task(self._beat())
        try:
            while True:
                try:
                    async with asyncio.timeout(_AGAIN_S):
                        await mended.wait()
                except TimeoutError:
                    # Another process may have repaired it.
                    pass
                mended.clear()
                before = self._store.reason
                log = await self._opened()
                if log is not None:
                    return log
                if self._store.reason != before:
                    self._tell()
        finally:
            self._store.mended = bool
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            # The process that registers is another one, with newer connections.
            self._client.disconnect()

    async def _opened(self) -> ReplicaLog | None:
        opening = asyncio.create_task(asyncio.to_thread(self._store.opened))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            # An opening is not interrupted.
            (log,) = await asyncio.gather(opening, return_exceptions=True)
            if isinstance(log, ReplicaLog):
                await asyncio.to_thread(log.close)
            raise

    async def _beat(self) -> None:
        while True:
            beat = self._made()
            for address in self._client.known:
                await self._client.heartbeat(address, beat)
            await asyncio.sleep(self._config.heartbeat_ms / 1000)

    def _made(self) -> SendHeartbeat:
        config, store = self._config, self._store
        return SendHeartbeat(
            store.identity.cluster,
            store.identity.broker,
            store.identity.broker_id,
            config.address,
            -1,
            -1,
            -1,
            config.heartbeat_timeout_ms,
            extension=HeartbeatExtension(
                store.incarnation, disk_problem=store.reason, is_ill=True
            ),
        )

    def _tell(self) -> None:
        self._say(
            f"this replica is ill, and takes repairs: {self._store.reason}; it opens "
            "when its store is whole"
        )
