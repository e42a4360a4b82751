"""
The configuration file of `pystore broker`: a host with its nodes. Pure.

A file that ends in ``.toml`` describes one node at its top level, or several as
``[[node]]``, the host in a table ``[host]``, and in ``[recovery]`` what it does for
AutoRecovery. Any other file is a ``broker.conf`` of
RocketMQ, which describes one node. The names of settings are RocketMQ's where it has
one.

Source: formats 7.1 to 7.3; RMQ-R264; docs/operations.md.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pystore.broker.access_settings import ACCESS_KEYS, AccessSettings, access_of
from pystore.broker.config import NodeConfig
from pystore.broker.host_port_settings import (
    HOST_PORT_KEYS,
    HostPortSettings,
    host_port_of,
)
from pystore.broker.recovery_settings import (
    RECOVERY_KEYS,
    HostRecoverySettings,
    recovery_of,
)
from pystore.broker.rocketmq_settings import check_controller_mode, check_places
from pystore.broker.setting_texts import INT_MAX, SettingTexts, table_texts
from pystore.core.options import LogArguments
from pystore.errors import InvalidError
from pystore.events.line_format import LOG_FORMATS, LineFormat
from pystore.fs.toml_file import parse_toml_text
from pystore.ha.insync.config import SetRules, rules_of_rocketmq
from pystore.message.host import pack_host
from pystore.message.properties import parse_delay_levels
from pystore.net.address import parse_address
from pystore.rates.host_rates import RateLimits
from pystore.store.retention import Retention

__all__ = [
    "SOCKET_PATH_BYTES_MAX",
    "HostConfig",
    "NodeSettings",
    "host_of_properties",
    "host_of_toml",
    "node_of",
]

SOCKET_PATH_BYTES_MAX = 107
"""What fits into the address of a Unix socket, beside its last byte 0."""

_DRAIN_MS = 3_000
_OURS = {"brokerIP1": "address", "listenPort": "address", "storePathRootDir": "store"}
"""RocketMQ's settings for which a TOML file has a name of its own."""
_MS, _BYTES = "a number of milliseconds", "a number of bytes"
_RULES = {
    "minInSyncReplicas": "a number of replicas",
    "haMaxTimeSlaveNotCatchup": _MS,
    "checkSyncStateSetPeriod": _MS,
}
_PORT_MAX = (1 << 16) - 1
_TIMES = {
    "brokerHeartbeatInterval": "heartbeat_ms",
    "controllerHeartBeatTimeoutMills": "heartbeat_timeout_ms",
    "syncBrokerMetadataPeriod": "poll_ms",
    "registerNameServerPeriod": "route_ms",
}
_RATES = {
    "repairBytesPerSecond": ("in_bytes", _BYTES),
    "serveBytesPerSecond": ("out_bytes", _BYTES),
    "repairLatencyMs": ("latency_ms", _MS),
}
_HOST_KEYS = ("socket", "drainTimeout", "logFormat", *_RATES, *HOST_PORT_KEYS)
_NOT_DEFAULT = (
    "name",
    "address",
    "store",
    "brokerName",
    "controllerAddr",
    "haListenPort",
    "eventHistory",
)
_NODE_KEYS = (
    "name",
    "address",
    "store",
    "brokerClusterName",
    "brokerName",
    "controllerAddr",
    "namesrvAddr",
    "asyncLearner",
    "syncFromLastFile",
    "haBlockCrc",
    *ACCESS_KEYS,
    "fileReservedTime",
    "commitLogBytesMax",
    "servesSynced",
    "masterResignTimeout",
    "haListenPort",
    "segmentPort",
    *_RULES,
    *_TIMES,
    "mappedFileSizeCommitLog",
    "mappedFileSizeConsumeQueue",
    "maxMessageSize",
    "messageDelayLevel",
    "enabledAppendPropCRC",
    "flushIntervalCommitLog",
    "eventHistory",
)


_DEFAULT_KEYS = tuple(
    one for one in _NODE_KEYS if one not in {*_NOT_DEFAULT, *ACCESS_KEYS}
)
"""The settings that a host may have for the nodes that are added to it."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """
    One node of a host.

    Attributes:
        name: names the node in requests, and in lines for the operator.
        config: of the broker.
        options: of its store.
        history: the file of its last events; ``None``: none.
        access: how it proves who it is, and what its connections speak.
    """

    name: str
    config: NodeConfig
    options: LogArguments
    history: Path | None = None
    access: AccessSettings = field(default_factory=AccessSettings)


@dataclass(frozen=True, slots=True)
class HostConfig:
    """
    A process with its nodes.

    Attributes:
        nodes: at least one, unless others can be added.
        socket: where the control socket is.
        drain_ms: how long the slaves of a master may take to receive the rest when the
            process ends.
        said: lines for the operator about settings that mean less than they say.
        log_format: of the lines on stderr.
        limits: of repairs and of catch-up.
        port: where nodes are added and removed; ``None``: nowhere.
        recovery: what it does for AutoRecovery; ``None``: nothing.

    Raises:
        InvalidError: two nodes share a name, a store, a port or a history, or the
            socket or a history has no possible place.
    """

    nodes: tuple[NodeSettings, ...]
    socket: Path
    drain_ms: int = _DRAIN_MS
    said: tuple[str, ...] = ()
    log_format: str = LineFormat.TEXT.value
    limits: RateLimits = field(default_factory=RateLimits)
    port: HostPortSettings | None = None
    recovery: HostRecoverySettings | None = None

    def __post_init__(self) -> None:
        names: set[str] = set()
        stores: dict[str, str] = {}
        ports: dict[tuple[str, int], str] = {}
        if self.port is not None:
            ports[parse_address(self.port.address)] = "the host"
        for one in self.nodes:
            if one.name in names:
                raise InvalidError(
                    f"two nodes are called {one.name!r}: give each another name"
                )
            names.add(one.name)
            store = os.path.abspath(one.config.store)
            _claim(stores, store, one.name, f"the store {store}")
            config = one.config
            for address in (config.address, config.ha_address, config.segment_address):
                at = parse_address(address)
                _claim(ports, at, one.name, f"{address} (a broker uses three ports)")
        self._check_socket(stores)
        self._check_histories(stores)

    def _check_histories(self, stores: Mapping[str, str]) -> None:
        histories: dict[str, str] = {}
        for one in self.nodes:
            if one.history is None:
                continue
            place = os.path.abspath(one.history)
            _claim(histories, place, one.name, f"the file of events {place}")
            for store, name in stores.items():
                if Path(place).is_relative_to(store):
                    raise InvalidError(
                        f"eventHistory={one.history} is inside the store of {name}, "
                        "which holds RocketMQ's files only: put it beside the store"
                    )

    def _check_socket(self, stores: Mapping[str, str]) -> None:
        size = len(os.fsencode(self.socket))
        if size > SOCKET_PATH_BYTES_MAX:
            raise InvalidError(
                f"socket={self.socket}: the path has {size} bytes, and a Unix socket "
                f"takes at most {SOCKET_PATH_BYTES_MAX}: set socket to a shorter one"
            )
        place = Path(os.path.abspath(self.socket))
        for store, name in stores.items():
            if place.is_relative_to(store):
                raise InvalidError(
                    f"socket={self.socket} is inside the store of {name}, which holds "
                    "RocketMQ's files only: put it beside the store"
                )


def host_of_toml(text: str, where: str) -> HostConfig:
    """
    Returns the configuration of a TOML text.

    Args:
        text: the content of the file.
        where: the file, for the messages.

    Raises:
        InvalidError: not TOML, an unknown key, or an invalid value.
    """
    found = parse_toml_text(text, where)
    host = found.pop("host", {})
    nodes = found.pop("node", None)
    defaults = found.pop("defaults", {})
    recovery = found.pop("recovery", None)
    if not isinstance(host, dict):
        raise InvalidError(f"{where}: host={host!r}: expected a table, [host]")
    if "hostAddress" in host and not found and not nodes:
        # A spare: its nodes are added while it runs.
        parts = []
    elif nodes is None:
        parts = [(where, found)]
    elif found:
        raise InvalidError(
            f"{where}: {next(iter(found))} stands beside [[node]]: move it into each "
            "node that it is for, or into [host]"
        )
    elif not isinstance(nodes, list) or not nodes:
        raise InvalidError(f"{where}: node={nodes!r}: expected tables, [[node]]")
    else:
        parts = [
            (f"{where}: node {number}", one) for number, one in enumerate(nodes, 1)
        ]
    settings = []
    for place, one in parts:
        texts = SettingTexts(_texts(one, _NODE_KEYS, place), place)
        # Here the minimum is what it says; RocketMQ's other rules are not known.
        texts.values["allAckInSyncStateSet"] = "true"
        settings.append(node_of(texts))
    place = f"{where}: [host]"
    given = SettingTexts(_texts(host, _HOST_KEYS, place), place)
    place = f"{where}: [defaults]"
    port = host_port_of(given, _texts(defaults, _DEFAULT_KEYS, place))
    made = _host(settings, given, where, [], port)
    if recovery is None:
        return made
    place = f"{where}: [recovery]"
    given = SettingTexts(_texts(recovery, RECOVERY_KEYS, place), place)
    return replace(made, recovery=_recovery(given, made))


def _recovery(given: SettingTexts, host: HostConfig) -> HostRecoverySettings:
    if host.port is not None:
        return recovery_of(given, host.port.controllers, host.port.access)
    first = host.nodes[0]
    return recovery_of(given, first.config.controllers, first.access)


def host_of_properties(values: Mapping[str, str], where: str) -> HostConfig:
    """
    Returns the configuration of a ``broker.conf`` of RocketMQ. It may also have our
    names that RocketMQ does not know, which it ignores. Settings of RocketMQ that have
    no meaning here are ignored: it knows several hundred.

    Args:
        values: of the file.
        where: the file, for the messages.

    Raises:
        InvalidError: an invalid value, or a setting that contradicts controller mode.
    """
    texts = SettingTexts({name: one.strip() for name, one in values.items()}, where)
    check_controller_mode(texts)
    said = []
    if "address" not in texts.values:
        if "brokerIP1" not in texts.values:
            said.append(
                f"{where}: brokerIP1 is not set, so this broker is reached on this "
                "machine only"
            )
        host = texts.text("brokerIP1", "127.0.0.1")
        port = texts.number("listenPort", 10911, "a port", _PORT_MAX)
        host = f"[{host}]" if ":" in host else host
        texts.values["address"] = f"{host}:{port}"
    if "store" not in texts.values:
        texts.values["store"] = texts.text("storePathRootDir")
    check_places(texts)
    # RocketMQ's default: its configuration says it by saying nothing.
    texts.values.setdefault("mappedFileSizeConsumeQueue", "6000000")
    texts.values.setdefault("fileReservedTime", "72")
    if texts.text("flushDiskType", "").upper() == "SYNC_FLUSH":
        said.append(
            f"{where}: flushDiskType=SYNC_FLUSH is no ack of pystore: each append "
            "names its own, leader-synced or all-synced to wait for disks"
        )
    return _host([node_of(texts)], texts, where, said)


def _claim(taken: dict[Any, str], key: object, name: str, what: str) -> None:
    other = taken.setdefault(key, name)
    if other != name:
        raise InvalidError(f"{name} and {other} have {what}: give each its own")


def _texts(table: object, keys: tuple[str, ...], place: str) -> dict[str, str]:
    return table_texts(table, keys, place, ours=_OURS, of_host=_HOST_KEYS)


def _host(
    nodes: list[NodeSettings],
    texts: SettingTexts,
    where: str,
    said: list[str],
    port: HostPortSettings | None = None,
) -> HostConfig:
    if nodes or port is None:
        beside = os.fspath(nodes[0].config.store) + ".sock"
    else:
        beside = os.fspath(port.store_root) + ".sock"
    drain_ms = texts.number("drainTimeout", _DRAIN_MS, _MS)
    log_format = texts.text("logFormat", LineFormat.TEXT.value)
    if log_format not in LOG_FORMATS:
        raise texts.fail("logFormat", f"expected {' or '.join(LOG_FORMATS)}")
    socket = Path(texts.text("socket", beside))
    limits = RateLimits(
        **{
            field_name: texts.number(name, 0, unit)
            for name, (field_name, unit) in _RATES.items()
        }
    )
    try:
        return HostConfig(
            tuple(nodes), socket, drain_ms, tuple(said), log_format, limits, port
        )
    except InvalidError as error:
        # It does not know the file.
        raise InvalidError(f"{where}: {error}") from error


def node_of(texts: SettingTexts) -> NodeSettings:
    """
    Returns the settings of one node.

    Raises:
        InvalidError: an invalid value, or one that is missing.
    """
    ha_port = _ha_port(texts)
    address = _address(texts, ha_port)
    controllers = texts.addresses("controllerAddr")
    if not controllers:
        raise InvalidError(
            f"{texts.where}: controllerAddr is missing: a broker needs the HOST:PORT "
            "of a controller; `pystore controller` is one"
        )
    config = NodeConfig(
        texts.text("brokerClusterName", "DefaultCluster"),
        texts.text("brokerName"),
        address,
        Path(texts.text("store")),
        controllers,
        texts.addresses("namesrvAddr"),
        ha_port,
        _segment_port(texts, address, ha_port),
        rules=_rules(texts),
        is_learner=texts.flag("asyncLearner", default=False),
        is_from_last_file=texts.flag("syncFromLastFile", default=False),
        has_block_crc=texts.flag("haBlockCrc", default=False),
        retention=_retention(texts),
    )
    config = _timed(config, texts)
    if config.heartbeat_ms >= config.heartbeat_timeout_ms:
        raise InvalidError(
            f"{texts.where}: brokerHeartbeatInterval={config.heartbeat_ms}: expected "
            "less than controllerHeartBeatTimeoutMills, which is "
            f"{config.heartbeat_timeout_ms}: each heartbeat would come too late"
        )
    name = texts.text("name", config.broker_name)
    beside = f"{os.fspath(config.store)}.events.jsonl"
    place = texts.values.get("eventHistory", beside)
    history = Path(place) if place else None
    return NodeSettings(
        name, config, _options(texts, address), history, access_of(texts)
    )


def _retention(texts: SettingTexts) -> Retention | None:
    """
    Returns which segments are deleted; ``None``: none.
    """
    hours = bytes_max = None
    if "fileReservedTime" in texts.values:
        hours = texts.number("fileReservedTime", 0, "a number of hours", INT_MAX)
    if "commitLogBytesMax" in texts.values:
        bytes_max = texts.number("commitLogBytesMax", 0, _BYTES, 1 << 62)
    if hours is None and bytes_max is None:
        return None
    return Retention(reserved_hours=hours, total_bytes_max=bytes_max)


def _ha_port(texts: SettingTexts) -> int:
    """
    Returns where slaves connect; 0: the port above, as RocketMQ for 0 and less.
    """
    if texts.values.get("haListenPort", "0") in ("-1", "0"):
        return 0
    return texts.number("haListenPort", 0, "a port", _PORT_MAX)


def _segment_port(texts: SettingTexts, address: str, ha_port: int) -> int:
    """
    Returns where repairs read segments; 0: the port above that for slaves.
    """
    _, port = parse_address(address)
    taken = port, ha_port or port + 1
    found = 0
    if texts.values.get("segmentPort", "0") != "0":
        found = texts.number("segmentPort", 0, "a port", _PORT_MAX)
    elif taken[1] == _PORT_MAX:
        raise texts.fail(
            "segmentPort", "there is no port above that for slaves: choose one"
        )
    if (found or taken[1] + 1) in taken:
        raise texts.fail("segmentPort", "clients or slaves have this port: change one")
    return found


def _address(texts: SettingTexts, ha_port: int) -> str:
    address = texts.text("address")
    host, port = texts.parsed("address", parse_address)
    if port == _PORT_MAX and not ha_port:
        raise texts.fail(
            "address", "slaves connect to the port above, and there is none"
        )
    if port == ha_port:
        raise texts.fail("haListenPort", "address has this port: slaves need another")
    try:
        is_every = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        # A name.
        is_every = False
    if is_every:
        raise texts.fail(
            "address", "expected the one address at which others reach this broker"
        )
    return address


def _timed(config: NodeConfig, texts: SettingTexts) -> NodeConfig:
    given: dict[str, Any] = {
        attribute: texts.number(name, 0, _MS)
        for name, attribute in _TIMES.items()
        if name in texts.values
    }
    return replace(config, **given)


def _rules(texts: SettingTexts) -> SetRules:
    for name, unit in _RULES.items():
        texts.number(name, 1, unit)
    try:
        rules = rules_of_rocketmq(texts.values)
    except InvalidError as error:
        # It does not know the file.
        raise InvalidError(f"{texts.where}: {error}") from error
    return replace(
        rules,
        serves_synced=texts.flag("servesSynced", default=True),
        resign_ms=texts.number("masterResignTimeout", 0, _MS),
    )


def _options(texts: SettingTexts, address: str) -> LogArguments:
    options = LogArguments(
        segment_size=texts.number("mappedFileSizeCommitLog", 0, _BYTES),
        property_crc=texts.flag("enabledAppendPropCRC", default=True),
    )
    try:
        pack_host(address)
        options["store_host"] = address
    except InvalidError:
        # A name, which records cannot hold: they keep the default.
        pass
    if "mappedFileSizeConsumeQueue" in texts.values:
        options["queue_file_bytes"] = texts.number(
            "mappedFileSizeConsumeQueue", 0, _BYTES
        )
    if "maxMessageSize" in texts.values:
        options["message_size_max"] = texts.number("maxMessageSize", 0, _BYTES)
    if "flushIntervalCommitLog" in texts.values:
        options["flush_interval_ms"] = texts.number("flushIntervalCommitLog", 0, _MS)
    if "messageDelayLevel" in texts.values:
        texts.parsed("messageDelayLevel", parse_delay_levels)
        options["delay_levels"] = texts.values["messageDelayLevel"]
    return options
