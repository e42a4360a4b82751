"""
The bodies of answers to administrators: replicas of sets, epochs of logs. Pure.

Source: formats 4.7, 4.10, 4.14; docs/remoting.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pystore.remoting.json_body import (
    parse_body,
    read_list,
    read_object,
    read_value,
    render_body,
)

__all__ = [
    "BrokerReplicas",
    "EpochCache",
    "EpochRow",
    "ReplicaIdentity",
    "decode_replicas",
    "encode_replicas",
]


@dataclass(frozen=True, slots=True)
class ReplicaIdentity:
    """
    One broker of a set in the answer to 1006.
    """

    broker_name: str
    broker_id: int
    broker_address: str
    is_alive: bool


@dataclass(frozen=True, slots=True)
class BrokerReplicas:
    """
    One broker set in the answer to 1006.

    Attributes:
        master_epoch: of the last election.
        sync_state_set_epoch: of the set.
        in_sync: the members.
        not_in_sync: the other brokers.
        master_broker_id: ``None``: there is no master.
        master_address: of the master.
    """

    master_epoch: int
    sync_state_set_epoch: int
    in_sync: tuple[ReplicaIdentity, ...] = ()
    not_in_sync: tuple[ReplicaIdentity, ...] = ()
    master_broker_id: int | None = None
    master_address: str | None = None


def encode_replicas(table: Mapping[str, BrokerReplicas]) -> bytes:
    """
    Returns the body of the answer to 1006.

    Args:
        table: by broker name.
    """
    rows = {
        name: {
            "inSyncReplicas": [_replica_row(one) for one in replicas.in_sync],
            "masterAddress": replicas.master_address,
            "masterBrokerId": replicas.master_broker_id,
            "masterEpoch": replicas.master_epoch,
            "notInSyncReplicas": [_replica_row(one) for one in replicas.not_in_sync],
            "syncStateSetEpoch": replicas.sync_state_set_epoch,
        }
        for name, replicas in table.items()
    }
    return render_body({"replicasInfoTable": rows})


def _replica_row(replica: ReplicaIdentity) -> dict[str, object]:
    return {
        "alive": replica.is_alive,
        "brokerAddress": replica.broker_address,
        "brokerId": replica.broker_id,
        "brokerName": replica.broker_name,
    }


def decode_replicas(body: bytes) -> dict[str, BrokerReplicas]:
    """
    Decodes the answer to 1006, by broker name.

    Raises:
        RemoteViolation: the body is malformed.
    """
    answer = read_object(parse_body(body), "1006's answer")
    table = read_object(answer.get("replicasInfoTable"), "replicasInfoTable")
    return {name: _replicas(read_object(row, name)) for name, row in table.items()}


def _replicas(row: dict[str, Any]) -> BrokerReplicas:
    has_master = row.get("masterBrokerId") is not None
    return BrokerReplicas(
        read_value(row, "masterEpoch", int),
        read_value(row, "syncStateSetEpoch", int),
        _replica_list(row, "inSyncReplicas"),
        _replica_list(row, "notInSyncReplicas"),
        read_value(row, "masterBrokerId", int) if has_master else None,
        None
        if row.get("masterAddress") is None
        else read_value(row, "masterAddress", str),
    )


def _replica_list(row: dict[str, Any], name: str) -> tuple[ReplicaIdentity, ...]:
    return tuple(
        ReplicaIdentity(
            read_value(one, "brokerName", str),
            read_value(one, "brokerId", int),
            read_value(one, "brokerAddress", str),
            read_value(one, "alive", bool),
        )
        for one in (
            read_object(each, name) for each in read_list(row.get(name, []), name)
        )
    )


@dataclass(frozen=True, slots=True)
class EpochRow:
    """
    One epoch of a broker's log, in log offsets; the last epoch ends at 2^63-1.
    """

    epoch: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class EpochCache:
    """
    The body of the answer to 1007.

    Attributes:
        cluster_name: of the broker.
        broker_name: of its set.
        broker_id: its role: 0 on a master.
        epochs: of its log, oldest first.
        max_offset: the end of its log.
    """

    cluster_name: str
    broker_name: str
    broker_id: int
    epochs: tuple[EpochRow, ...]
    max_offset: int

    def encode(self) -> bytes:
        """
        Returns the body.
        """
        rows = [
            {
                "endOffset": one.end_offset,
                "epoch": one.epoch,
                "startOffset": one.start_offset,
            }
            for one in self.epochs
        ]
        return render_body(
            {
                "brokerId": self.broker_id,
                "brokerName": self.broker_name,
                "clusterName": self.cluster_name,
                "epochList": rows,
                "maxOffset": self.max_offset,
            }
        )

    @classmethod
    def decode(cls, body: bytes) -> EpochCache:
        """
        Decodes a body.

        Raises:
            RemoteViolation: the body is malformed.
        """
        row = read_object(parse_body(body), "1007's answer")
        rows = [
            read_object(one, "epochList")
            for one in read_list(row.get("epochList", []), "epochList")
        ]
        return cls(
            read_value(row, "clusterName", str),
            read_value(row, "brokerName", str),
            read_value(row, "brokerId", int),
            tuple(
                EpochRow(
                    read_value(one, "epoch", int),
                    read_value(one, "startOffset", int),
                    read_value(one, "endOffset", int),
                )
                for one in rows
            ),
            read_value(row, "maxOffset", int),
        )
