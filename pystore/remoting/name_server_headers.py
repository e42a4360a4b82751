"""
Headers of what brokers and clients ask a name server, and brokers each other. Pure.

Source: formats 3.8, client protocol 1.1, 1.3; docs/remoting.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.remoting.fields import Int32, Int64

__all__ = [
    "BrokerMemberGroupRequest",
    "ExchangeHaInfo",
    "GetRouteInfoRequest",
    "NotifyMinBrokerIdChange",
    "RegisterBrokerRequest",
    "RegisterBrokerResponse",
    "UnregisterBrokerRequest",
]


@dataclass(frozen=True, slots=True)
class RegisterBrokerRequest:
    """
    103: a broker with its topics, which are the body.

    Attributes:
        broker_name: of the set.
        broker_addr: where clients reach it.
        cluster_name: of the set.
        broker_id: 0 for a master.
        ha_server_addr: where slaves reach it.
        heartbeat_timeout_millis: how long the registration counts.
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
    103: where a slave finds its master.
    """

    ha_server_addr: str | None = None
    master_addr: str | None = None


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRequest:
    """
    104: a broker stops.
    """

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


@dataclass(frozen=True, slots=True)
class GetRouteInfoRequest:
    """
    105: who has this topic.

    Attributes:
        topic: its name.
        accept_standard_json_only: numbers as keys have to be in quotes.
    """

    topic: str
    accept_standard_json_only: bool = False


@dataclass(frozen=True, slots=True)
class BrokerMemberGroupRequest:
    """
    901: who is in this set.
    """

    cluster_name: str
    broker_name: str


@dataclass(frozen=True, slots=True)
class NotifyMinBrokerIdChange:
    """
    905, name server to broker, one-way: the smallest id of a set is another.
    """

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


@dataclass(frozen=True, slots=True)
class ExchangeHaInfo:
    """
    906, broker to broker: the same fields there and back.
    """

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None
