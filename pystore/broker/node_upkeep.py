"""
What a broker looks at from time to time: how full its disk is, when its certificate
ends, which segments are old.

Source: docs/operations.md, *Running brokers*; RMQ-R100.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from pystore.access.certificate_watch import CertificateWatch
from pystore.broker.config import NodeConfig
from pystore.broker.heartbeats import HeartbeatSender
from pystore.clocks import wall_ms
from pystore.errors import PystoreError
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.net.tls import ServerTls
from pystore.store.retention import Retention

__all__ = ["NodeUpkeep"]

_WATCH_S = 600.0
_DISK_S = 10.0


class NodeUpkeep:
    """
    The looks of one broker; each method is a task of its loop, without an end.

    Args:
        config: of the broker.
        say: receives one line for the operator, from any thread.
        tell: the same, of what may be repeated.
        disk_used: returns how full the file system of a directory is, in percent, or
            raises an OSError.
    """

    def __init__(
        self,
        config: NodeConfig,
        say: Callable[[str], object],
        tell: Callable[[str], object],
        disk_used: Callable[[Path], int],
    ) -> None:
        self._config = config
        self._say = say
        self._tell = tell
        self._disk_used = disk_used

    async def watch_disk(self, heartbeats: HeartbeatSender) -> None:
        """
        Looks at intervals how full the disk is, which heartbeats tell.
        """
        while True:
            try:
                used = await asyncio.to_thread(self._disk_used, self._config.store)
            except OSError:
                # Such as for a disk that failed, which the log says.
                used = -1
            heartbeats.disk_used_percent = used
            await asyncio.sleep(_DISK_S)

    async def watch_certificate(self, tls: ServerTls) -> None:
        """
        Says in advance when the certificate of this broker ends.
        """
        watch = CertificateWatch(tls.certificate, self._say)
        while True:
            await asyncio.to_thread(watch.look)
            await asyncio.sleep(_WATCH_S)

    async def retain(self, log: ReplicaLog, retention: Retention) -> None:
        """
        Deletes old segments at intervals. Each replica deletes its own; a slave that
        still needed them is filled again.
        """
        while True:
            try:
                await asyncio.to_thread(log.store.retain, retention, wall_ms())
            except PystoreError as error:
                # Damage, a full disk, or a store that is opened again: later.
                self._tell(f"no segment is deleted now: {error}")
            await asyncio.sleep(self._config.retain_ms / 1000)
