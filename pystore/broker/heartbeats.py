"""
The heartbeats of a broker to its controllers.

Each controller gets its own: one that does not answer delays no other's. The lease in
an answer counts from the moment at which the heartbeat was sent (C1).

Source: formats 4.8; RMQ-R238 to RMQ-R241; B9, C0, C1.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from pystore.broker.config import NodeConfig
from pystore.broker.controller_gateway import ThreadedGateway
from pystore.broker.lease_answers import LeaseAnswers, SentHeartbeat
from pystore.broker.recovery_facts import log_begin_of, log_end_of
from pystore.clocks import boottime_ns, wall_ms
from pystore.controller.client.client import ControllerClient
from pystore.controller.model.log_end import NOWHERE, UNTOLD, LogBegin, LogEnd
from pystore.controller.protocol.calls import HeartbeatAnswer, SendHeartbeat
from pystore.controller.protocol.extensions import HeartbeatExtension
from pystore.errors import PystoreError
from pystore.ha.replica import Replica

__all__ = ["HeartbeatSender"]

_LOOK_S = 0.1


class _LogState(NamedTuple):
    """
    What a heartbeat tells of the log.
    """

    position: LogEnd = NOWHERE
    confirm_offset: int = -1
    flushed_end: int = -1
    problem: str = ""
    begin: LogBegin = UNTOLD
    known_epoch: int = -1
    known_set_epoch: int = -1
    promised_epoch: int = -1


class HeartbeatSender:
    """
    Sends the heartbeats of one registered broker. One event loop.

    Args:
        config: of the broker.
        client: to the controllers.
        replica: gets the leases.
        gateway: has the epoch that was resigned last.

    Attributes:
        disk_used_percent: how full the file system of the store is; -1: unknown. Its
            owner sets it.
    """

    def __init__(
        self,
        config: NodeConfig,
        client: ControllerClient,
        replica: Replica,
        gateway: ThreadedGateway,
    ) -> None:
        self._config = config
        self._client = client
        self._replica = replica
        self._gateway = gateway
        self._leases = LeaseAnswers()
        self._boot_id = replica.log.writer.boot.boot_id.hex()
        self._state = _LogState()
        self.disk_used_percent = -1
        self._under_way: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """
        Sends until it is cancelled.
        """
        while True:
            for address in self._client.known:
                task = self._under_way.get(address)
                if task is None or task.done():
                    self._under_way[address] = asyncio.create_task(self._send(address))
            await self._rest()

    async def _rest(self) -> None:
        """
        Waits for the time of the next heartbeat, or until the log begins elsewhere than
        was told last: what fills a replica waits for that. Only a log that was empty or
        filling is looked at in between: a host may have many others.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._config.heartbeat_ms / 1000
        while (left_s := end_s - loop.time()) > 0:
            is_moving = self._state.begin.is_filling or self._state.position.end <= 0
            await asyncio.sleep(min(left_s, _LOOK_S) if is_moving else left_s)
            if is_moving and self._has_moved():
                return

    def _has_moved(self) -> bool:
        try:
            return log_begin_of(self._replica.log) != self._state.begin
        except PystoreError:
            # Closed, or opened again after an interrupted cut.
            return False

    async def send_last(self) -> None:
        """
        Sends one more, after the replica was closed: it tells the resigned epoch.
        """
        await asyncio.gather(*(self._send(one) for one in self._client.known))

    async def _send(self, address: str) -> None:
        beat = self._made()
        sent = SentHeartbeat(beat.epoch, boottime_ns(), wall_ms())
        answer = await self._client.heartbeat(address, beat)
        if not isinstance(answer, HeartbeatAnswer):
            return
        told = self._leases.lease_of(
            sent, answer, is_leader=address == self._client.leader
        )
        if told is not None:
            self._replica.leased(*told)

    def _look(self) -> _LogState:
        """
        Notes the state of the log; of one that was closed meanwhile the last one stays.
        """
        try:
            # The promise before the end: what is acknowledged under an older master is
            # below the end that is told with it.
            promised_epoch = self._replica.log.log().promised_epoch
            at, log = log_end_of(self._replica.log), self._replica.log.log()
            begin = log_begin_of(self._replica.log)
            problem = self._replica.serving_problem()
        except PystoreError:
            # Closed, or opened again after an interrupted cut.
            return self._state
        if log.is_poisoned and not problem:
            problem = "a write-back failed"
        self._state = _LogState(
            at,
            log.confirm_offset,
            log.flushed_offset,
            problem,
            begin,
            *_known(self._replica, log.promised_epoch),
            promised_epoch,
        )
        return self._state

    def _made(self) -> SendHeartbeat:
        config, replica, state = self._config, self._replica, self._look()
        return SendHeartbeat(
            config.cluster,
            config.broker_name,
            replica.me.broker_id,
            config.address,
            state.position.epoch,
            state.position.end,
            state.confirm_offset,
            config.heartbeat_timeout_ms,
            extension=HeartbeatExtension(
                replica.me.incarnation or replica.log.incarnation,
                self._boot_id,
                state.flushed_end,
                state.problem,
                self._gateway.resigned_epoch,
                state.begin,
                state.known_epoch,
                state.known_set_epoch,
                self.disk_used_percent,
                promised_epoch=state.promised_epoch,
            ),
        )


def _known(replica: Replica, promised_epoch: int) -> tuple[int, int]:
    """
    Returns epoch and SyncStateSet epoch of the newest decision that is known.
    """
    now = replica.standing()
    is_newest = now.epoch >= promised_epoch
    return max(now.epoch, promised_epoch), now.agreed.set_epoch if is_newest else -1
