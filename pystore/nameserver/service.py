"""
Handles the requests of RocketMQ's brokers, clients and administrators to a name server.

`name_server` returns handlers for a `RemotingServer`, and functions to call when a
connection closes and at intervals. The server may have other handlers as well.

All calls come from the event loop; no handler waits, so each is a plain function.

Source: client protocol 1; docs/name-server.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pystore.nameserver.route_table import (
    RegistrationIgnored,
    RegistrationRefused,
    RouteTable,
)
from pystore.remoting import name_server_headers as headers
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection, Handler
from pystore.remoting.controller_bodies import BrokerMemberGroup, encode_member_group
from pystore.remoting.fields import decode_fields, encode_fields
from pystore.remoting.registration_body import DataVersion, RegistrationBody
from pystore.remoting.reply import Reply
from pystore.remoting.route_bodies import encode_cluster_info, encode_topic_list

__all__ = ["EXPIRE_PERIOD_MS", "NameServer", "name_server"]

EXPIRE_PERIOD_MS = 5000
"""The interval between two removals of silent brokers."""

_CRC_MASK = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class NameServer:
    """
    A name server without its sockets.

    Attributes:
        handlers: by request code. With a controller on the same server, both get 904:
            a heartbeat with a broker id is for the controller.
        closed: to be called with each closed connection.
        expire: to be called each `EXPIRE_PERIOD_MS`.
    """

    handlers: Mapping[int, Handler]
    closed: Callable[[Connection], None]
    expire: Callable[[], None]


def name_server(
    now_ms: Callable[[], int], say: Callable[[str], object] = bool
) -> NameServer:
    """
    Returns a name server without brokers.

    Args:
        now_ms: a monotonic clock.
        say: receives one line for people about each removed or refused broker.
    """
    routes = _Routes(RouteTable(), now_ms, say)
    return NameServer(
        {
            RequestCode.REGISTER_BROKER: routes.register,
            RequestCode.UNREGISTER_BROKER: routes.unregister,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: routes.route,
            RequestCode.GET_BROKER_CLUSTER_INFO: routes.cluster_info,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: routes.wipe_write_perm,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: routes.topic_list,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: routes.delete_topic,
            RequestCode.QUERY_DATA_VERSION: routes.query_data_version,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: routes.add_write_perm,
            RequestCode.GET_BROKER_MEMBER_GROUP: routes.member_group,
            RequestCode.BROKER_HEARTBEAT: routes.heartbeat,
        },
        routes.closed,
        routes.expire,
    )


class _Routes:
    def __init__(
        self,
        table: RouteTable,
        now_ms: Callable[[], int],
        say: Callable[[str], object],
    ) -> None:
        self._table = table
        self._now_ms = now_ms
        self._say = say

    # -- brokers -------------------------------------------------------------

    def register(self, request: RemotingCommand, peer: Connection) -> Reply:
        header = decode_fields(headers.RegisterBrokerRequest, request.ext_fields)
        if header.body_crc32 and header.body_crc32 != _masked_crc(request.body):
            return self._refuse("crc32 not match")
        if header.compressed:
            return self._refuse(
                f"broker {header.broker_name} at {header.broker_addr} compresses its "
                "registration: set compressedRegister=false there"
            )
        body = RegistrationBody.decode(request.body)
        if peer.is_closed:
            # `closed` was already called: the broker would never be removed.
            return self._refuse(f"{header.broker_addr} has closed its connection")
        outcome = self._table.register(header, body, peer, self._now_ms())
        if isinstance(outcome, RegistrationRefused):
            return self._refuse(outcome.reason)
        if isinstance(outcome, RegistrationIgnored):
            self._say(outcome.reason)
            return Reply()
        return Reply(
            ext_fields=encode_fields(
                headers.RegisterBrokerResponse(
                    outcome.master_ha_address, outcome.master_address
                )
            )
        )

    def _refuse(self, reason: str) -> Reply:
        self._say(f"the name server refuses a registration: {reason}")
        return Reply(ResponseCode.SYSTEM_ERROR, reason)

    def unregister(self, request: RemotingCommand, _: Connection) -> Reply:
        header = decode_fields(headers.UnregisterBrokerRequest, request.ext_fields)
        self._table.unregister(header.broker_name, header.broker_addr)
        return Reply()

    def heartbeat(self, request: RemotingCommand, _: Connection) -> Reply:
        header = decode_fields(headers.NameServerHeartbeat, request.ext_fields)
        self._table.touch(header.broker_name, header.broker_addr, self._now_ms())
        return Reply()

    def query_data_version(self, request: RemotingCommand, _: Connection) -> Reply:
        header = decode_fields(headers.QueryDataVersionRequest, request.ext_fields)
        told = DataVersion.decode(request.body)
        known = self._table.data_version(header.broker_name, header.broker_addr)
        if known == told:
            self._table.touch(header.broker_name, header.broker_addr, self._now_ms())
        return Reply(
            ext_fields=encode_fields(
                headers.QueryDataVersionResponse(changed=known != told)
            ),
            body=b"" if known is None else known.encode(),
        )

    def member_group(self, request: RemotingCommand, _: Connection) -> Reply:
        header = decode_fields(headers.BrokerMemberGroupRequest, request.ext_fields)
        found = self._table.addresses(header.cluster_name, header.broker_name)
        group = BrokerMemberGroup(header.cluster_name, header.broker_name, found)
        return Reply(body=encode_member_group(group))

    # -- clients -------------------------------------------------------------

    def route(self, request: RemotingCommand, _: Connection) -> Reply:
        header = decode_fields(headers.GetRouteInfoRequest, request.ext_fields)
        found = self._table.route(header.topic)
        if found is None:
            remark = f"no live broker has the topic {header.topic}"
            return Reply(ResponseCode.TOPIC_NOT_EXIST, remark)
        return Reply(body=found.encode())

    # -- administrators ------------------------------------------------------

    def cluster_info(self, *_: object) -> Reply:
        return Reply(body=encode_cluster_info(self._table.brokers()))

    def topic_list(self, *_: object) -> Reply:
        return Reply(body=encode_topic_list(self._table.topics()))

    def delete_topic(self, request: RemotingCommand, _: Connection) -> Reply:
        header = decode_fields(headers.DeleteTopicRequest, request.ext_fields)
        self._table.delete_topic(header.topic, header.cluster_name)
        return Reply()

    def wipe_write_perm(self, request: RemotingCommand, _: Connection) -> Reply:
        header = decode_fields(headers.WritePermRequest, request.ext_fields)
        count = self._table.wipe_write_perm(header.broker_name)
        return Reply(ext_fields=encode_fields(headers.WipeWritePermResponse(count)))

    def add_write_perm(self, request: RemotingCommand, _: Connection) -> Reply:
        header = decode_fields(headers.WritePermRequest, request.ext_fields)
        count = self._table.add_write_perm(header.broker_name)
        return Reply(ext_fields=encode_fields(headers.AddWritePermResponse(count)))

    # -- the end of a broker -------------------------------------------------

    def closed(self, peer: Connection) -> None:
        for address in self._table.close(peer):
            self._say(
                f"the name server removed broker {address}: its connection closed"
            )

    def expire(self) -> None:
        for address in self._table.expire(self._now_ms()):
            self._say(
                f"the name server removed broker {address}: it was silent for too long"
            )


def _masked_crc(body: bytes) -> int:
    return zlib.crc32(body) & _CRC_MASK
