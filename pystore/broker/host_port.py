"""
The host port: operators add and remove nodes there, with RocketMQ's requests to a
broker container, and ask what the host is. The host tells the same to its controllers.

An order may take longer than a client waits: then the answer says that it is still
carried out.

Source: docs/operations.md, *Hosts*.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pystore.access.certificate_watch import CertificateWatch
from pystore.access.remote_gate import RemoteGate
from pystore.broker.host_port_settings import HostPortSettings
from pystore.broker.hosted_sets import (
    HostedSets,
    NodeRuns,
    NoSuchReplica,
    settings_file,
)
from pystore.broker.node_status import HostedNode
from pystore.controller.client.client import ControllerClient
from pystore.controller.client.host_descriptions import send_host_heartbeat
from pystore.controller.protocol.host_descriptions import (
    HostDescription,
    HostedReplica,
    encode_hosts,
)
from pystore.errors import PystoreError, UnavailableError
from pystore.fs.free_space import usable_bytes
from pystore.net.address import parse_address
from pystore.net.tls import ServerTls
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.fields import decode_fields
from pystore.remoting.host_headers import AddBrokerRequest, RemoveBrokerRequest
from pystore.remoting.json_body import render_body
from pystore.remoting.reply import Reply
from pystore.remoting.server import RemotingServer
from pystore.rocketmq.properties_file import (
    parse_properties_text,
    read_properties_file,
)

__all__ = ["HostPort"]

_ANSWER_S = 4.0
_BEAT_S = 1.0
_BEAT_VALID_MS = 10_000
_WATCH_S = 600.0

_T = TypeVar("_T")


class HostPort:
    """
    The port of one host. For one event loop.

    Args:
        settings: of the host.
        runs: its running nodes.
        say: receives one line for the operator.

    Attributes:
        sets: the nodes that come and go.
    """

    def __init__(
        self, settings: HostPortSettings, runs: NodeRuns, say: Callable[[str], object]
    ) -> None:
        self._settings = settings
        self._runs = runs
        self._say = say
        self._said = ""
        self.sets = HostedSets(settings, runs, say)
        access = settings.access.opened(say)
        self._client = ControllerClient(
            settings.controllers, say=say, signs=access.signs, tls=access.client_tls
        )
        gate = RemoteGate(
            self._client.verify if access.signs is not None else None, say=say
        )
        self._tls = access.server_tls
        self._server = RemotingServer(
            gate.guard(
                {
                    RequestCode.ADD_BROKER: self._add,
                    RequestCode.REMOVE_BROKER: self._remove,
                    RequestCode.DESCRIBE_HOST: self._describe,
                }
            ),
            say=say,
            tls=access.server_tls,
            admission=gate,
        )

    async def serve(self, ready: Callable[[str], object] = bool) -> None:
        """
        Serves, and tells controllers what the host is, until it is cancelled.

        Args:
            ready: called with the address when the port listens.

        Raises:
            StorageError: it cannot listen.
        """
        await self._server.start(*parse_address(self._settings.address))
        ready(self._settings.address)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat())
            if self._tls is not None:
                group.create_task(self._watch(self._tls))

    async def close(self) -> None:
        """
        Ends serving, once the orders are carried out. Idempotent.
        """
        await self._server.close()
        await self.sets.close()
        await self._client.close()

    def description(self) -> HostDescription:
        """
        Returns what the host is now. It asks the file system.
        """
        root = self._settings.store_root
        try:
            total, free = usable_bytes(root)
        except OSError:
            # The disk failed: no replica is put there.
            total = free = 0
        replicas = map(_replica, tuple(self._runs.nodes.values()))
        return HostDescription(
            self._settings.address,
            self._settings.rack,
            total,
            free,
            replicas=tuple(sorted(replicas, key=lambda it: (it.cluster, it.set_name))),
        )

    async def _beat(self) -> None:
        while True:
            try:
                told = await asyncio.to_thread(self.description)
                await send_host_heartbeat(self._client, told, _BEAT_VALID_MS)
            except PystoreError as error:
                # None leads, or they are RocketMQ's, which know no hosts.
                self._tell(f"no controller takes the heartbeat of this host: {error}")
            else:
                self._said = ""
            await asyncio.sleep(_BEAT_S)

    async def _watch(self, tls: ServerTls) -> None:
        watch = CertificateWatch(tls.certificate, self._say)
        while True:
            await asyncio.to_thread(watch.look)
            await asyncio.sleep(_WATCH_S)

    def _tell(self, line: str) -> None:
        if line != self._said:
            self._said = line
            self._say(line)

    # -- requests --------------------------------------------------------------

    async def _add(self, request: RemotingCommand, peer: Connection) -> Reply:
        header = decode_fields(AddBrokerRequest, request.ext_fields)
        where = f"the request of {request.asked_by(peer.peer)}"

        async def work() -> dict[str, Any]:
            if header.config_path:
                place = settings_file(header.config_path, self._settings)
                values = await asyncio.to_thread(read_properties_file, place)
            else:
                values = parse_properties_text(_text(request.body), where)
            added = await self.sets.add(values, where, is_dry_run=header.is_dry_run)
            if not header.is_dry_run:
                self._say(f"node {added.name} is added by {where}")
            return {
                "node": added.name,
                "address": added.config.address,
                "haAddress": added.config.ha_address,
                "store": str(added.config.store),
            }

        return await _answered(work(), "the node is still being started")

    async def _remove(self, request: RemotingCommand, peer: Connection) -> Reply:
        header = decode_fields(RemoveBrokerRequest, request.ext_fields)
        where = f"the request of {request.asked_by(peer.peer)}"

        async def work() -> dict[str, Any]:
            removed = await self.sets.remove(
                header.broker_cluster_name,
                header.broker_name,
                header.broker_id,
                is_forced=header.is_forced,
                deletes_store=header.deletes_store,
                is_dry_run=header.is_dry_run,
            )
            if not header.is_dry_run:
                self._say(f"node {removed.name} is removed by {where}")
            config = removed.settings.config
            return {"node": removed.name, "store": str(config.store)}

        return await _answered(work(), "the node is still being closed")

    async def _describe(self, _: RemotingCommand, __: Connection) -> Reply:
        told = await asyncio.to_thread(self.description)
        return Reply(body=encode_hosts([told]))


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        # Java's own encoding of these files.
        return body.decode("latin-1")


async def _answered(work: Coroutine[None, None, dict[str, Any]], still: str) -> Reply:
    """
    Returns the answer to an order: what it did, why it is refused, or, after a while,
    that it is under way.
    """
    try:
        async with asyncio.timeout(_ANSWER_S):
            done = await work
    except TimeoutError:
        # It is carried out to its end.
        return Reply(remark=still)
    except NoSuchReplica as error:
        # As RocketMQ's container answers.
        return Reply(ResponseCode.BROKER_NOT_EXIST, str(error))
    except UnavailableError as error:
        # Later it may be possible.
        return Reply(ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
    except (PystoreError, OSError) as error:
        # It is refused, and nothing is changed.
        return Reply(ResponseCode.SYSTEM_ERROR, str(error))
    return Reply(body=render_body(done))


def _replica(hosted: HostedNode) -> HostedReplica:
    config = hosted.settings.config
    return HostedReplica(
        config.cluster,
        config.broker_name,
        hosted.broker_id,
        config.address,
        hosted.role,
    )
