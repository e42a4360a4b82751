"""
The registration of a broker with name servers (103), so that slaves of RocketMQ find
their master and where it serves them.

Source: client protocol 1.3; formats 3.8; docs/name-server.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pystore.broker.config import NodeConfig
from pystore.errors import PystoreError
from pystore.ha.replica import Replica
from pystore.ha.role import Role
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.fields import encode_fields
from pystore.remoting.name_server_headers import RegisterBrokerRequest
from pystore.remoting.registration_body import DataVersion, RegistrationBody

__all__ = ["RouteRegistration"]

_LOOK_MS = 50


class RouteRegistration:
    """
    Registers one broker with all its name servers. One event loop.

    Args:
        config: of the broker.
        say: receives one line for the operator, once for each problem.
    """

    def __init__(self, config: NodeConfig, say: Callable[[str], object]) -> None:
        self._config = config
        self._say = say
        self._said = ""
        self._remoting = RemotingClient(
            say=say, signs=config.signs, tls=config.client_tls
        )

    async def run(self, replica: Replica, broker_id: int) -> None:
        """
        Registers at intervals, and at once as a new master, until it is cancelled.
        """
        if not self._config.name_servers:
            return
        told, left_ms = None, 0
        while True:
            standing = replica.standing()
            now = standing.epoch, standing.role is Role.MASTER
            if now != told or left_ms <= 0:
                told, left_ms = now, self._config.route_ms
                await self._register(now, broker_id)
            await asyncio.sleep(_LOOK_MS / 1000)
            left_ms -= _LOOK_MS

    async def close(self) -> None:
        """
        Closes the connections. Idempotent.
        """
        await self._remoting.close()

    async def _register(self, now: tuple[int, bool], broker_id: int) -> None:
        epoch, is_master = now
        config = self._config
        header = RegisterBrokerRequest(
            config.broker_name,
            config.address,
            config.cluster,
            0 if is_master else broker_id,
            config.ha_address,
        )
        request = RemotingCommand(
            RequestCode.REGISTER_BROKER,
            ext_fields=encode_fields(header),
            body=RegistrationBody(DataVersion(state_version=epoch)).encode(),
        )
        answers = await asyncio.gather(
            *(self._remoting.call(one, request) for one in config.name_servers),
            return_exceptions=True,
        )
        for address, answer in zip(config.name_servers, answers, strict=True):
            if isinstance(answer, PystoreError):
                self._tell(f"name server {address}: {answer}")
            elif isinstance(answer, BaseException):
                raise answer

    def _tell(self, line: str) -> None:
        if line != self._said:
            self._said = line
            self._say(line)
