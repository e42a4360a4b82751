"""
The configuration of a replica: its identity, and how it serves and follows. Pure.

Decisions of a controller are no part of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pystore.events.event import Event
from pystore.events.node_events import log_node_event
from pystore.events.node_teller import NodeTeller
from pystore.ha.insync.config import SetRules
from pystore.ha.master.config import MasterConfig
from pystore.ha.slave.backoff import BackOffConfig
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.wire.proof import OPEN, LinkGuard
from pystore.net.tls import ClientTls, ServerTls
from pystore.rates.host_rates import HostRates
from pystore.replicaset import Incarnation, Member

__all__ = ["ReplicaConfig"]


@dataclass(frozen=True, slots=True)
class ReplicaConfig:
    """
    The identity of a replica, and how it serves and follows.

    Attributes:
        cluster: name of the cluster.
        broker_name: name of the broker set.
        broker_id: persistent, from 1 on.
        host: where it listens as master; default: on this machine only.
        port: 0: any free port.
        rules: of the set.
        heartbeat_ms: see `pystore.ha.master.config.MasterConfig`; less where members
            must be caught up more often.
        is_learner: it never joins the SyncStateSet, whatever the controllers say: those
            of RocketMQ know no learners.
        is_from_last_file: an empty log begins with the master's last segment.
        pace: the waits between two links to a master.
        retry_ms: how long after a failure a role switch is tried again.
        bytes_per_second: to one slave; 0: no limit.
        rates: of the host, which its replicas share.
        has_block_crc: as master, it sends each block with a checksum.
        guard: returns what this process knows about proofs of links at that moment.
        server_tls: of its port as master; ``None``: plain bytes only.
        client_tls: of its links to a master; ``None``: plain bytes.
        say: called with one line for the operator, of what is no event, from any
            thread.
        on_event: takes each event, in any thread; by default the logger
            ``pystore.broker`` has them.
        is_registered: whether the controllers know this process; one that they do not
            know keeps its records, whatever another master has.
    """

    cluster: str
    broker_name: str
    broker_id: int
    host: str = "127.0.0.1"
    port: int = 0
    rules: SetRules | None = None
    heartbeat_ms: int = 5_000
    is_learner: bool = False
    is_from_last_file: bool = False
    pace: BackOffConfig = field(default_factory=BackOffConfig)
    retry_ms: int = 1_000
    bytes_per_second: int = 0
    rates: HostRates = field(default_factory=HostRates, compare=False, repr=False)
    has_block_crc: bool = False
    guard: Callable[[], LinkGuard] = lambda: OPEN
    server_tls: ServerTls | None = None
    client_tls: ClientTls | None = None
    say: Callable[[str], object] = bool
    on_event: Callable[[Event], object] = log_node_event
    is_registered: Callable[[], bool] = lambda: True

    @property
    def teller(self) -> NodeTeller:
        """
        Tells the events of the replica.
        """
        return NodeTeller(self.cluster, self.broker_name, self.broker_id, self.on_event)

    def master_config(self, epoch: int, segment_size: int) -> MasterConfig:
        """
        Returns the configuration as a master.
        """
        rules = self.rules or SetRules()
        # Of an idle log only heartbeats prove that a slave is caught up.
        heartbeat_ms = max(1, min(self.heartbeat_ms, rules.lag_ms_max // 3))
        return MasterConfig(
            self.cluster,
            self.broker_name,
            self.broker_id,
            epoch,
            segment_size,
            heartbeat_ms=heartbeat_ms,
            has_block_crc=self.has_block_crc,
        )

    def slave_config(
        self, me: Member, epoch: int, *, may_wipe: Callable[[], bool]
    ) -> SlaveConfig:
        """
        Returns the configuration as a slave.

        Args:
            me: this replica with its incarnation.
            epoch: of the master.
            may_wipe: returns whether no acknowledged record depends on this replica.
        """
        start = me.incarnation or Incarnation()
        return SlaveConfig(
            self.cluster,
            self.broker_name,
            self.broker_id,
            incarnation=start.counter,
            incarnation_bits=start.bits,
            epoch=epoch,
            is_learner=self.is_learner,
            is_from_last_file=self.is_from_last_file,
            may_wipe=may_wipe,
            guard=self.guard,
            heartbeat_ms=self.heartbeat_ms,
        )
