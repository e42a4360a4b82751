"""
The description of hosts: as a host tells it in its heartbeat (7119), and the leading
controller tells it of all hosts (7125). Pure.

The body is one JSON object in ASCII with ``hosts``. A host is known by the address of
its host port, which no other one has.

Source: docs/controller.md, *Hosts*.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from pystore.errors import InvalidError, RemoteViolation
from pystore.net.address import parse_address
from pystore.remoting.json_body import (
    parse_body,
    read_list,
    read_object,
    read_value,
)

__all__ = [
    "HOST_BODY_BYTES_MAX",
    "HostDescription",
    "HostedReplica",
    "HostsPage",
    "decode_hosts",
    "encode_hosts",
]

HOST_BODY_BYTES_MAX = 64 << 10
"""Of one host: some hundred replicas."""

_TEXT_CHARS_MAX = 300


@dataclass(frozen=True, slots=True)
class HostedReplica:
    """
    A replica that a host carries.

    Attributes:
        cluster: of its set.
        set_name: the set.
        broker_id: in the set; 0: it has none yet.
        address: ``HOST:PORT`` of its remoting port.
        state: its role, in the words of ``pystore broker status``.
    """

    cluster: str
    set_name: str
    broker_id: int = 0
    address: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class HostDescription:
    """
    One host.

    Attributes:
        address: ``HOST:PORT`` of its host port.
        rack: the label of what fails together with it; empty: it has none.
        total_bytes: of the file system of its stores, as far as it can be used; 0:
            unknown.
        free_bytes: of them.
        segments_address: ``HOST:PORT`` where it serves segments; empty: it serves none.
        replicas: that it carries, in the order of cluster and set.
        is_alive: it sends heartbeats, as the controller says.
        since_ms: for how long it is alive, or is not, by the controller's clock.
    """

    address: str
    rack: str = ""
    total_bytes: int = 0
    free_bytes: int = 0
    segments_address: str = ""
    replicas: tuple[HostedReplica, ...] = ()
    is_alive: bool = True
    since_ms: int = 0

    @property
    def used_percent(self) -> int:
        """
        How full its file system is, rounded up; -1: unknown.
        """
        if not self.total_bytes:
            return -1
        return -(-100 * (self.total_bytes - self.free_bytes) // self.total_bytes)

    def carries(self, cluster: str, set_name: str) -> bool:
        """
        Returns whether it carries a replica of a set.
        """
        return any(
            (one.cluster, one.set_name) == (cluster, set_name) for one in self.replicas
        )


@dataclass(frozen=True, slots=True)
class HostsPage:
    """
    A part of the description of all hosts, told under the authority of one controller.

    Attributes:
        led_ms: for how long that controller has led.
        may_replace: it has led for so long that a silent host is not alive. Otherwise
            hosts that are not told may be there.
        hosts: in the order of their addresses.
    """

    led_ms: int
    may_replace: bool
    hosts: tuple[HostDescription, ...] = ()


def encode_hosts(hosts: Iterable[HostDescription]) -> bytes:
    """
    Returns the body.
    """
    told = {"hosts": list(map(_host, hosts))}
    return json.dumps(told, separators=(",", ":")).encode("ascii")


def decode_hosts(body: bytes) -> tuple[HostDescription, ...]:
    """
    Returns the hosts of a body.

    Raises:
        RemoteViolation: it is no such body.
    """
    top = read_object(parse_body(body), "hosts")
    return tuple(map(_host_of, read_list(top.get("hosts"), "hosts")))


def _host(one: HostDescription) -> dict[str, object]:
    return {
        "address": one.address,
        "rack": one.rack,
        "totalBytes": one.total_bytes,
        "freeBytes": one.free_bytes,
        "segmentsAddress": one.segments_address,
        "replicas": [
            {
                "clusterName": each.cluster,
                "brokerName": each.set_name,
                "brokerId": each.broker_id,
                "address": each.address,
                "state": each.state,
            }
            for each in one.replicas
        ],
        "alive": one.is_alive,
        "sinceMillis": one.since_ms,
    }


def _host_of(value: object) -> HostDescription:
    row = read_object(value, "host")
    address = _text(row, "address")
    try:
        parse_address(address)
    except InvalidError as error:
        # Another host is told, or nothing can be sent to it.
        raise RemoteViolation(f"the address of a host: {error}") from error
    total, free = _count(row, "totalBytes"), _count(row, "freeBytes")
    if free > total:
        raise RemoteViolation(f"{address}: {free} of {total} bytes are free")
    return HostDescription(
        address,
        _text(row, "rack"),
        total,
        free,
        _text(row, "segmentsAddress"),
        tuple(
            _replica_of(read_object(one, "replica"))
            for one in read_list(row.get("replicas"), "replicas")
        ),
        read_value(row, "alive", bool),
        _count(row, "sinceMillis"),
    )


def _replica_of(row: dict[str, object]) -> HostedReplica:
    return HostedReplica(
        _text(row, "clusterName"),
        _text(row, "brokerName"),
        _count(row, "brokerId"),
        _text(row, "address"),
        _text(row, "state"),
    )


def _text(row: dict[str, object], name: str) -> str:
    text = read_value(row, name, str)
    if len(text) > _TEXT_CHARS_MAX:
        raise RemoteViolation(f"{name} has {len(text)} characters")
    return text


def _count(row: dict[str, object], name: str) -> int:
    found = read_value(row, name, int)
    if not 0 <= found < 1 << 63:
        raise RemoteViolation(f"{name} is {found}")
    return found
