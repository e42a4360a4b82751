"""
The headers of requests to a host and about hosts: RocketMQ's to a broker container, and
pystore's own. Pure.

Source: docs/operations.md, *Hosts*.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.remoting.fields import Int32, Int64

__all__ = [
    "AddBrokerRequest",
    "DescribeHostsRequest",
    "DescribeHostsResponse",
    "ForgetHostRequest",
    "HostHeartbeatRequest",
    "RemoveBrokerRequest",
]


@dataclass(frozen=True, slots=True)
class AddBrokerRequest:
    """
    902: adds a node to a host. Its settings are in the body, as a properties file, or
    in a file of the host.

    Attributes:
        config_path: of that file; empty: they are in the body. RocketMQ's mqadmin sends
            a path.
        is_dry_run: nothing is changed; of pystore.
    """

    config_path: str = ""
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True)
class RemoveBrokerRequest:
    """
    903: removes a node from a host.

    Attributes:
        broker_name: the set of the node.
        broker_cluster_name: of the set.
        broker_id: of the node; 0: whichever it has.
        is_forced: also a master that no other member takes over from; of pystore.
        deletes_store: also the files of its store; of pystore.
        is_dry_run: nothing is changed; of pystore.
    """

    broker_name: str
    broker_cluster_name: str
    broker_id: Int64
    is_forced: bool = False
    deletes_store: bool = False
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True)
class HostHeartbeatRequest:
    """
    7119: a host tells the leading controller what it is; the body is
    `pystore.controller.protocol.host_descriptions.encode_hosts`, of one.

    Attributes:
        timeout_millis: how long it is valid.
    """

    timeout_millis: Int32 = 10_000


@dataclass(frozen=True, slots=True)
class DescribeHostsRequest:
    """
    7125: asks for the description of the hosts after this one, in the order of their
    addresses; empty: from the first one on.
    """

    after_host: str = ""


@dataclass(frozen=True, slots=True)
class DescribeHostsResponse:
    """
    The answer to 7125.

    Attributes:
        led_millis: for how long the answering controller has led.
        may_replace_master: it has led for so long, without a pause, that a silent host
            is not alive.
        next_host: the last one that it told; empty: there are no more.
    """

    led_millis: Int64 = 0
    may_replace_master: bool = False
    next_host: str = ""


@dataclass(frozen=True, slots=True)
class ForgetHostRequest:
    """
    7127: deletes what the controllers know of a host that is silent, and that no set
    needs. One that they do not know is fine.

    Attributes:
        host: its address.
    """

    host: str
