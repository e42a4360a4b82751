"""
The bodies of elections, SyncStateSets and broker sets. Pure.

The names in JSON are RocketMQ's. Unknown names are ignored; a value of another type is
an error that names it.

Source: formats 3.8, 4.2, 4.3, 4.7, 4.9, 4.14; docs/remoting.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pystore.errors import RemoteViolation
from pystore.remoting.json_body import (
    parse_body,
    read_list,
    read_object,
    read_value,
    render_body,
)

__all__ = [
    "BrokerMemberGroup",
    "ElectMasterBody",
    "SyncStateSet",
    "decode_broker_names",
    "decode_member_group",
    "encode_broker_names",
    "encode_member_group",
]


@dataclass(frozen=True, slots=True)
class SyncStateSet:
    """
    The body of 1001, 1003, 1004 and 1008.

    Attributes:
        broker_ids: its members.
        epoch: the number of its changes.
    """

    broker_ids: frozenset[int]
    epoch: int

    def encode(self) -> bytes:
        """
        Returns the body.
        """
        return render_body(
            {"syncStateSet": sorted(self.broker_ids), "syncStateSetEpoch": self.epoch}
        )

    @classmethod
    def decode(cls, body: bytes) -> SyncStateSet:
        """
        Decodes a body.

        Raises:
            RemoteViolation: the body is malformed.
        """
        row = read_object(parse_body(body), "SyncStateSet")
        return cls(_ids(row), read_value(row, "syncStateSetEpoch", int))


@dataclass(frozen=True, slots=True)
class BrokerMemberGroup:
    """
    The brokers of a set; the body of 901, and a part of the body of 1002.

    Attributes:
        cluster: of the set.
        broker_name: of the set.
        addresses: by broker id.
    """

    cluster: str
    broker_name: str
    addresses: Mapping[int, str]

    def row(self) -> dict[str, object]:
        """
        Returns its JSON object.
        """
        return {
            "brokerAddrs": dict(self.addresses),
            "brokerName": self.broker_name,
            "cluster": self.cluster,
        }

    @classmethod
    def from_row(cls, value: object) -> BrokerMemberGroup:
        """
        Decodes its JSON object.

        Raises:
            RemoteViolation: the object is malformed.
        """
        row = read_object(value, "brokerMemberGroup")
        addresses = read_object(row.get("brokerAddrs", {}), "brokerAddrs")
        return cls(
            read_value(row, "cluster", str),
            read_value(row, "brokerName", str),
            {_key(name): read_value(addresses, name, str) for name in addresses},
        )


def encode_member_group(group: BrokerMemberGroup | None) -> bytes:
    """
    Returns the body of the answer to 901; ``None``: the set does not exist.
    """
    return render_body({"brokerMemberGroup": group and group.row()})


def decode_member_group(body: bytes) -> BrokerMemberGroup | None:
    """
    Decodes the answer to 901.

    Raises:
        RemoteViolation: the body is malformed.
    """
    return _group(read_object(parse_body(body), "the answer"))


def _group(row: dict[str, Any]) -> BrokerMemberGroup | None:
    value = row.get("brokerMemberGroup")
    return None if value is None else BrokerMemberGroup.from_row(value)


@dataclass(frozen=True, slots=True)
class ElectMasterBody:
    """
    The body of the answer to 1002.

    Attributes:
        sync_state_set: after the election; with 2011 the present one.
        group: the brokers of the set; ``None`` with 2011.
    """

    sync_state_set: frozenset[int]
    group: BrokerMemberGroup | None = None

    def encode(self) -> bytes:
        """
        Returns the body.
        """
        return render_body(
            {
                "brokerMemberGroup": self.group and self.group.row(),
                "syncStateSet": sorted(self.sync_state_set),
            }
        )

    @classmethod
    def decode(cls, body: bytes) -> ElectMasterBody:
        """
        Decodes a body.

        Raises:
            RemoteViolation: the body is malformed.
        """
        row = read_object(parse_body(body), "1002's answer")
        return cls(_ids(row), _group(row))


def encode_broker_names(names: Iterable[str]) -> bytes:
    """
    Returns the body of 1006.
    """
    return render_body(list(names))


def decode_broker_names(body: bytes) -> list[str]:
    """
    Decodes the body of 1006: the requested names.

    Raises:
        RemoteViolation: the body is malformed.
    """
    names = read_list(parse_body(body), "the names of 1006")
    if not all(isinstance(name, str) for name in names):
        raise RemoteViolation("a body whose names of 1006 are not all text")
    return names


def _ids(row: dict[str, Any]) -> frozenset[int]:
    ids = read_list(row.get("syncStateSet"), "syncStateSet")
    if not all(type(one) is int for one in ids):
        raise RemoteViolation("a body whose syncStateSet is not all numbers")
    return frozenset(ids)


def _key(name: str) -> int:
    try:
        return int(name)
    except ValueError as error:
        # Keys of this object are broker ids.
        raise RemoteViolation(f"a body whose brokerAddrs has {name[:32]!r}") from error
