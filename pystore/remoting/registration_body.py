"""
The body of 103: a broker's topics and their data version. Pure.

Source: formats 3.8, client protocol 1.3; docs/name-server.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pystore.errors import RemoteViolation
from pystore.remoting.json_body import (
    parse_body,
    read_list,
    read_object,
    read_value,
    render_body,
)

__all__ = ["DataVersion", "RegistrationBody", "TopicQueues"]


@dataclass(frozen=True, slots=True)
class DataVersion:
    """
    The version of a broker's topics; different versions mean different topics.

    Attributes:
        counter: the number of changes.
        state_version: the epoch of the broker's master; 0 without a controller.
        timestamp: of the last change, by the broker's clock in ms.
    """

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0

    def encode(self) -> bytes:
        """
        Returns the body of 322.
        """
        return render_body(self.row)

    @property
    def row(self) -> dict[str, int]:
        """
        Its JSON object.
        """
        return {
            "counter": self.counter,
            "stateVersion": self.state_version,
            "timestamp": self.timestamp,
        }

    @classmethod
    def decode(cls, body: bytes) -> DataVersion:
        """
        Decodes the body of 322.

        Raises:
            RemoteViolation: the body is malformed.
        """
        return cls.from_row(parse_body(body))

    @classmethod
    def from_row(cls, value: object) -> DataVersion:
        """
        Decodes its JSON object; brokers before RocketMQ 5 send no state version.

        Raises:
            RemoteViolation: the object is malformed.
        """
        row = {"stateVersion": 0} | read_object(value, "dataVersion")
        return cls(
            read_value(row, "counter", int),
            read_value(row, "stateVersion", int),
            read_value(row, "timestamp", int),
        )


@dataclass(frozen=True, slots=True)
class TopicQueues:
    """
    The queues of a topic in one broker set.

    Attributes:
        read_queues: the number of queues to read.
        write_queues: the number of queues to write.
        perm: bits: 4 read, 2 write, 1 inherit.
        sys_flag: of the topic.
        mapping: of a static topic, as its broker sent it; ``None`` for all others.
    """

    read_queues: int
    write_queues: int
    perm: int
    sys_flag: int = 0
    mapping: object = None


@dataclass(frozen=True, slots=True)
class RegistrationBody:
    """
    The body of 103.

    Attributes:
        version: of the topics.
        topics: by name; all topics, or in a later message the changed ones.
        filter_servers: their addresses, for clients.
    """

    version: DataVersion = DataVersion()
    topics: Mapping[str, TopicQueues] = field(default_factory=dict)
    filter_servers: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """
        Returns the body.
        """
        table = {name: _row(name, one) for name, one in self.topics.items()}
        wrapper = {"dataVersion": self.version.row, "topicConfigTable": table}
        return render_body(
            {
                "filterServerList": list(self.filter_servers),
                "topicConfigSerializeWrapper": wrapper,
            }
        )

    @classmethod
    def decode(cls, body: bytes) -> RegistrationBody:
        """
        Decodes a body; an empty body has no topics.

        Raises:
            RemoteViolation: the body is malformed, such as that of a broker before
                3.0.11.
        """
        if not body:
            return cls()
        row = read_object(parse_body(body), "registration")
        wrapper = read_object(
            row.get("topicConfigSerializeWrapper"), "topicConfigSerializeWrapper"
        )
        table = read_object(wrapper.get("topicConfigTable"), "topicConfigTable")
        mappings = read_object(
            wrapper.get("topicQueueMappingInfoMap") or {}, "topicQueueMappingInfoMap"
        )
        return cls(
            DataVersion.from_row(wrapper.get("dataVersion")),
            {
                name: _topic(read_object(one, f"topic {name}"), mappings.get(name))
                for name, one in table.items()
            },
            _addresses(row.get("filterServerList") or []),
        )


def _row(name: str, topic: TopicQueues) -> dict[str, object]:
    return {
        "topicName": name,
        "readQueueNums": topic.read_queues,
        "writeQueueNums": topic.write_queues,
        "perm": topic.perm,
        "topicSysFlag": topic.sys_flag,
        "topicFilterType": "SINGLE_TAG",
        "order": False,
        "attributes": {},
    }


def _topic(row: dict[str, Any], mapping: object) -> TopicQueues:
    return TopicQueues(
        read_value(row, "readQueueNums", int),
        read_value(row, "writeQueueNums", int),
        read_value(row, "perm", int),
        read_value(row, "topicSysFlag", int),
        mapping,
    )


def _addresses(value: object) -> tuple[str, ...]:
    addresses = read_list(value, "filterServerList")
    if not all(isinstance(one, str) for one in addresses):
        raise RemoteViolation("a body whose filterServerList is not all text")
    return tuple(addresses)
