"""
Orders of AutoRecovery to brokers of a test.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

from lib.broker_nodes import SEGMENT, WAIT_S
from pystore.autorecovery.peer_client import RemotePeers
from pystore.autorecovery.replica_peers import ReplicaAddress
from pystore.broker.node import BrokerNode
from pystore.ha.insync.ack import Ack
from pystore.ha.replica import Replica
from pystore.message.message import Message
from pystore.segments.order import (
    OrderAction,
    OrderOutcome,
    OrderProgress,
    SegmentOrder,
)

__all__ = ["address_of", "ended", "fill", "flip", "ordered", "wait_until"]

_claims = itertools.count(1)


def address_of(node: BrokerNode) -> ReplicaAddress:
    """
    A registered broker as workers name it.
    """
    config, replica = node.config, node.replica
    assert replica is not None
    return ReplicaAddress(
        config.cluster, config.broker_name, replica.me.broker_id, config.address
    )


def wait_until(holds: Callable[[], object]) -> None:
    """
    Waits until it holds.
    """
    end_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def ordered(
    action: OrderAction, base: int, *sources: str, claim: str = "", rate: int = 0
) -> SegmentOrder:
    """
    An order with a claim of its own.
    """
    claim = claim or f"claim-{next(_claims)}"
    return SegmentOrder(claim, base, action, sources, bytes_per_second=rate)


def ended(
    peers: RemotePeers, replica: ReplicaAddress, order: SegmentOrder
) -> OrderProgress:
    """
    Orders a job, and waits for its end.
    """
    end_s = time.monotonic() + WAIT_S
    found = peers.order(replica, order)
    while found.outcome is OrderOutcome.RUNNING:
        assert time.monotonic() < end_s
        time.sleep(0.01)
        found = peers.progress(replica, order.claim)
    return found


def fill(replica: Replica, segments: int, size: int = SEGMENT) -> None:
    """
    Appends until so many segments are full.
    """
    body = bytes(range(250)) * 40
    while replica.log.log().confirm_offset < segments * size + 1:
        assert replica.append([Message("t", body)] * 32, Ack.ALL, 20_000).is_reached


def flip(root: Path, base: int, at: int) -> None:
    """
    Changes one bit of a segment.
    """
    with (root / "commitlog" / f"{base:020d}").open("r+b") as file:
        file.seek(at)
        old = file.read(1)
        file.seek(at)
        file.write(bytes([old[0] ^ 4]))
