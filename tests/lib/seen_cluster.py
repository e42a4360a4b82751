"""
What a run with AutoRecovery sees of a small cluster, for tests of the demo.
"""

from __future__ import annotations

from collections.abc import Mapping

from pystore.autorecovery.host_peers import CarriedReplica, RecoveryHost
from pystore.autorecovery.pauses import Pauses
from pystore.autorecovery.queue_view import QueueContents
from pystore.autorecovery.settings import RecoverySettings
from pystore.autorecovery.status_view import RecoveryStatus
from pystore.controller.model.log_end import LogBegin
from pystore.controller.protocol.set_descriptions import (
    BrokerDescription,
    SetDescription,
)
from pystore.demo.cluster_sight import ClusterSight

__all__ = ["CLUSTER", "a_broker", "a_host", "a_sight", "a_status"]

CLUSTER = "demo"


def a_broker(number: int) -> BrokerDescription:
    """
    A broker that is alive, in sync and whole.
    """
    return BrokerDescription(
        number, is_alive=True, is_in_sync=True, begin=LogBegin(0, is_filling=False)
    )


def a_host(number: int, *brokers: int) -> RecoveryHost:
    """
    A host that carries brokers of the set `s`.
    """
    carried = tuple(CarriedReplica(CLUSTER, "s", one) for one in brokers)
    return RecoveryHost(f"host-{number}", replicas=carried, is_alive=True)


def a_status() -> RecoveryStatus:
    """
    Nothing is lost, and nothing waits.
    """
    return RecoveryStatus(
        at_ms=0,
        contents=QueueContents({}, {}, {}, is_enabled=True, damaged=()),
        settings=RecoverySettings(),
        pauses=Pauses(),
        switched_off=None,
        auditor="a",
        auditor_activity=None,
        workers=(),
        lost=(),
        maintenance={},
        damaged=(),
    )


def a_sight(
    brokers: Mapping[int, BrokerDescription], master: int | None = 1
) -> ClusterSight:
    """
    The set `s`, with each broker on the host of its number, and host 3.
    """
    described = SetDescription(
        CLUSTER, "s", master_id=master, brokers=tuple(brokers.values())
    )
    hosts = {one: a_host(one, one) for one in brokers}
    return ClusterSight({"s": described}, {3: a_host(3), **hosts}, {}, {}, a_status())
