"""
The headers of requests to a name server, and between brokers. Pure.

Source: formats 3.8, client protocol 1.1, 1.3; docs/remoting.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.remoting.fields import Int32, Int64

__all__ = [
    "AddWritePermResponse",
    "BrokerMemberGroupRequest",
    "DeleteTopicRequest",
    "ExchangeHaInfo",
    "GetRouteInfoRequest",
    "NameServerHeartbeat",
    "NotifyMinBrokerIdChange",
    "QueryDataVersionRequest",
    "QueryDataVersionResponse",
    "RegisterBrokerRequest",
    "RegisterBrokerResponse",
    "UnregisterBrokerRequest",
    "WipeWritePermResponse",
    "WritePermRequest",
]


@dataclass(frozen=True, slots=True)
class RegisterBrokerRequest:
    """
    103: registers a broker; its topics are the body.

    Attributes:
        broker_name: of the set.
        broker_addr: for clients.
        cluster_name: of the set.
        broker_id: 0 for a master.
        ha_server_addr: for slaves.
        heartbeat_timeout_millis: how long the registration is valid.
        enable_acting_master: whether a slave may stand in for readers.
        compressed: whether the body is.
        body_crc32: of the body, with the top bit clear; 0: not checked.
    """

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64
    ha_server_addr: str | None = None
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = 0


@dataclass(frozen=True, slots=True)
class RegisterBrokerResponse:
    """
    103: the addresses of a slave's master.
    """

    ha_server_addr: str | None = None
    master_addr: str | None = None


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRequest:
    """
    104: unregisters a broker.
    """

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


@dataclass(frozen=True, slots=True)
class GetRouteInfoRequest:
    """
    105: asks for the route of a topic.

    Attributes:
        topic: its name.
        accept_standard_json_only: numbers as keys have to be in quotes.
    """

    topic: str
    accept_standard_json_only: bool = False


@dataclass(frozen=True, slots=True)
class WritePermRequest:
    """
    205 and 327: forbids or allows writing to a set.
    """

    broker_name: str


@dataclass(frozen=True, slots=True)
class WipeWritePermResponse:
    """
    205: the number of topics of the set.
    """

    wipe_topic_count: Int32


@dataclass(frozen=True, slots=True)
class AddWritePermResponse:
    """
    327: the number of topics of the set.
    """

    add_topic_count: Int32


@dataclass(frozen=True, slots=True)
class DeleteTopicRequest:
    """
    216: removes a topic from the routes.

    Attributes:
        topic: its name.
        cluster_name: of the brokers; ``None``: all clusters.
    """

    topic: str
    cluster_name: str | None = None


@dataclass(frozen=True, slots=True)
class QueryDataVersionRequest:
    """
    322: asks whether a broker has to register again; its data version is the body.
    """

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


@dataclass(frozen=True, slots=True)
class QueryDataVersionResponse:
    """
    322: whether the known data version differs; the known one is the body.
    """

    changed: bool


@dataclass(frozen=True, slots=True)
class NameServerHeartbeat:
    """
    904 to a name server, one-way: the heartbeat of a broker.
    """

    broker_name: str
    broker_addr: str
    cluster_name: str


@dataclass(frozen=True, slots=True)
class BrokerMemberGroupRequest:
    """
    901: asks for the brokers of a set.
    """

    cluster_name: str
    broker_name: str


@dataclass(frozen=True, slots=True)
class NotifyMinBrokerIdChange:
    """
    905, name server to broker, one-way: the smallest id of a set changed.
    """

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


@dataclass(frozen=True, slots=True)
class ExchangeHaInfo:
    """
    906, broker to broker: request and answer have the same fields.
    """

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None
