"""
The status of a hosted node as JSON values, with RocketMQ's words where it has one.

Any thread.
"""

from __future__ import annotations

from typing import Any

from pystore.broker.node import BrokerNode
from pystore.broker.settings import NodeSettings
from pystore.errors import PystoreError
from pystore.ha.replica import Replica
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.replicaset import ids_of

__all__ = ["FAILED", "ILL", "STARTING", "HostedNode"]

STARTING = "starting"
"""The role of a node that opens its store, or is not registered yet."""
ILL = "ill"
"""The role of a node whose store cannot be opened, and takes repairs."""
FAILED = "failed"
"""The role of a node that has ended because of an error."""


class HostedNode:
    """
    A node of a host, with its settings.

    Args:
        settings: of the node.
        node: not started yet.

    Attributes:
        settings: of the node.
        node: the broker.
        failure: why the node has ended; empty: it has not.
    """

    def __init__(self, settings: NodeSettings, node: BrokerNode) -> None:
        self.settings = settings
        self.node = node
        self.failure = ""

    @property
    def name(self) -> str:
        """
        Its name in the host.
        """
        return self.settings.name

    @property
    def broker_id(self) -> int:
        """
        Its id in its set; 0: it has none yet.
        """
        replica, ill = self.node.replica, self.node.ill
        if replica is not None:
            return replica.me.broker_id
        return 0 if ill is None else ill.identity.broker_id

    @property
    def role(self) -> str:
        """
        Its role now, as in its status.
        """
        replica = self.node.replica
        if self.failure or replica is None:
            return self._idle_role
        try:
            return replica.standing().role.value
        except PystoreError:
            # The store is closed, or opened again after a cut.
            return STARTING

    @property
    def _idle_role(self) -> str:
        if self.failure:
            return FAILED
        return STARTING if self.node.ill is None else ILL

    @property
    def master_address(self) -> str | None:
        """
        ``HOST:PORT`` of the newest master that is known; ``None``: none is.
        """
        newest = self.node.newest
        return None if newest is None else newest.master_address or None

    def status(self) -> dict[str, Any]:
        """
        Returns the status now. What is not known is ``None``.
        """
        config = self.settings.config
        found: dict[str, Any] = {
            "node": self.name,
            "brokerClusterName": config.cluster,
            "brokerName": config.broker_name,
            "address": config.address,
            "haAddress": config.ha_address,
            "store": str(config.store),
            "brokerId": self.broker_id or None,
            "role": self._idle_role,
            "masterEpoch": None,
            "masterId": None,
            "masterAddress": None,
            "syncStateSet": [],
            "syncStateSetEpoch": None,
            "candidates": [],
            "gapBytes": None,
            "leaseLeftMs": None,
            "isLearner": None,
            "problem": self.failure or self.node.problem,
        }
        replica = self.node.replica
        if replica is not None and not self.failure:
            found |= self._standing(replica)
        return found | _ends(self.node.log)

    def _standing(self, replica: Replica) -> dict[str, Any]:
        try:
            now = replica.standing()
        except PystoreError as error:
            # The store is closed, or opened again after a cut: the log says it, too.
            return {"brokerId": replica.me.broker_id, "problem": str(error)}
        return {
            "brokerId": replica.me.broker_id,
            "role": now.role.value,
            "masterEpoch": now.epoch,
            "masterId": None if now.master is None else now.master.broker_id,
            "masterAddress": self.master_address,
            "syncStateSet": sorted(ids_of(now.agreed.members)),
            "syncStateSetEpoch": now.agreed.set_epoch,
            "candidates": sorted(ids_of(now.agreed.candidates)),
            "gapBytes": now.gap_bytes,
            "leaseLeftMs": now.lease_left_ms,
            "isLearner": replica.is_learner(),
            "problem": now.problem or self.node.problem,
        }


def _ends(log: ReplicaLog | None) -> dict[str, Any]:
    names = ("minOffset", "endOffset", "confirmOffset", "flushedOffset", "segmentSize")
    try:
        now = None if log is None else log.log()
    except PystoreError:
        # The store is closed.
        now = None
    if now is None:
        return {**dict.fromkeys(names), "isFilling": None, "isPoisoned": None}
    values = (
        now.min_offset,
        now.end_offset,
        now.confirm_offset,
        now.flushed_offset,
        now.segment_size,
    )
    found = dict(zip(names, values, strict=True))
    return {**found, "isFilling": now.is_filling, "isPoisoned": now.is_poisoned}
