"""
The configuration of a broker node. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pystore.errors import InvalidError
from pystore.events.event import Event
from pystore.events.node_events import log_node_event
from pystore.ha.config import ReplicaConfig
from pystore.ha.insync.config import SetRules
from pystore.ha.slave.backoff import BackOffConfig
from pystore.net.address import parse_address
from pystore.net.networks import Networks
from pystore.net.tls import ClientTls, ServerTls
from pystore.rates.host_rates import HostRates
from pystore.remoting.admission import Signs
from pystore.remoting.codes import HEARTBEAT_TIMEOUT_MS
from pystore.remoting.connection import Connection
from pystore.remoting.signature import Credentials
from pystore.store.retention import Retention

__all__ = ["NodeConfig", "ha_address_of"]


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """
    What one broker is, and whom it speaks with.

    Attributes:
        cluster: name of the cluster; RocketMQ: ``brokerClusterName``.
        broker_name: name of the set; RocketMQ: ``brokerName``.
        address: ``HOST:PORT`` where controllers and clients reach it, and where it
            listens.
        store: the directory of the store; a missing or empty one becomes a store.
        controllers: ``HOST:PORT`` of each; RocketMQ: ``controllerAddr``.
        name_servers: ``HOST:PORT`` of each; RocketMQ: ``namesrvAddr``.
        ha_port: where slaves connect; 0: the port above that of `address`, where
            RocketMQ's brokers listen by default.
        segment_port: where repairs of other brokers read settled segments; 0: the port
            above that for slaves.
        rules: of the SyncStateSet.
        heartbeat_ms: between two heartbeats to the controllers.
        heartbeat_timeout_ms: how long a heartbeat is valid.
        poll_ms: between two questions for the master, should a notice be lost.
        route_ms: between two registrations with the name servers.
        is_learner: it never joins the SyncStateSet, whatever the controllers say: those
            of RocketMQ know no learners. Those of pystore decide it, and may lift it.
        is_from_last_file: an empty log begins with the master's last segment; RocketMQ:
            ``syncFromLastFile``. Such a replica is elected only unclean (B11).
        has_block_crc: as master, it sends slaves each block with a checksum.
        credentials: returns those of this moment, with which it signs and opens what
            controllers seal for it; ``None``: it has none.
        ha_unproven: the addresses of slaves, or their networks, that may go without
            proofs where these are required, as RocketMQ's have to.
        signs: signs each request to controllers and name servers; ``None``: nothing is
            signed.
        client_tls: of its connections to controllers, name servers and its master;
            ``None``: plain bytes.
        server_tls: of its ports, for clients and for slaves; ``None``: plain bytes.
        pace: the waits between two links to a master.
        rates: of the host, which its nodes share.
        retention: which segments are deleted; ``None``: none.
        retain_ms: between two looks for them.

    Raises:
        InvalidError: an address is invalid, or there is no controller, or no port is
            above that of `address`.
    """

    cluster: str
    broker_name: str
    address: str
    store: Path
    controllers: tuple[str, ...]
    name_servers: tuple[str, ...] = ()
    ha_port: int = 0
    segment_port: int = 0
    rules: SetRules = field(default_factory=SetRules)
    heartbeat_ms: int = 1_000
    heartbeat_timeout_ms: int = HEARTBEAT_TIMEOUT_MS
    poll_ms: int = 1_000
    route_ms: int = 10_000
    is_learner: bool = False
    is_from_last_file: bool = False
    has_block_crc: bool = False
    credentials: Callable[[], Credentials] | None = field(default=None, repr=False)
    ha_unproven: Networks = ()
    signs: Signs[Connection] | None = field(default=None, repr=False)
    client_tls: ClientTls | None = None
    server_tls: ServerTls | None = None
    pace: BackOffConfig = field(default_factory=BackOffConfig)
    rates: HostRates = field(default_factory=HostRates, compare=False, repr=False)
    retention: Retention | None = None
    retain_ms: int = 10_000

    def __post_init__(self) -> None:
        if not self.controllers:
            raise InvalidError("a broker needs the address of a controller")
        for one in (self.address, *self.controllers, *self.name_servers):
            parse_address(one)
        parse_address(self.ha_address)
        parse_address(self.segment_address)

    @property
    def segment_address(self) -> str:
        """
        ``HOST:PORT`` where repairs read segments.
        """
        host, port = parse_address(self.ha_address)
        return _joined(host, self.segment_port or port + 1)

    @property
    def ha_address(self) -> str:
        """
        ``HOST:PORT`` where slaves connect.
        """
        host, port = parse_address(self.address)
        return _joined(host, self.ha_port or port + 1)

    def replica_config(
        self,
        broker_id: int,
        say: Callable[[str], object],
        on_event: Callable[[Event], object] = log_node_event,
    ) -> ReplicaConfig:
        """
        Returns the configuration of the replica.
        """
        host, port = parse_address(self.ha_address)
        return ReplicaConfig(
            self.cluster,
            self.broker_name,
            broker_id,
            host=host,
            port=port,
            rules=self.rules,
            is_learner=self.is_learner,
            is_from_last_file=self.is_from_last_file,
            has_block_crc=self.has_block_crc,
            server_tls=self.server_tls,
            client_tls=self.client_tls,
            pace=self.pace,
            rates=self.rates,
            say=say,
            on_event=on_event,
        )


def ha_address_of(master_address: str) -> str:
    """
    Returns where a master serves slaves, from where it serves clients: controllers and
    brokers of RocketMQ name that one only. Its convention is the port above.
    """
    host, port = parse_address(master_address)
    return _joined(host, port + 1)


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
