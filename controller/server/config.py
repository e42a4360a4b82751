"""
The configuration of a controller: its file, and the changes while it runs. Pure.

The names are RocketMQ's where it has one, so that ``controller.properties`` can be used
as it is; a file that ends in ``.toml`` has the same names. Settings of RocketMQ without
a meaning here are ignored, and reported.

Source: formats 4.11, 7.4; RMQ-R257.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, NamedTuple

from pystore.access.mode import AccessMode
from pystore.errors import InvalidError
from pystore.events.line_format import LOG_FORMATS
from pystore.fs.toml_file import parse_toml_text
from pystore.net.address import parse_listen_address
from pystore.net.tls import TlsConfig, TlsMode, tls_config
from pystore.remoting.fields import wire_name

__all__ = [
    "FOREIGN",
    "ConfigFile",
    "ControllerConfig",
    "parse_toml",
    "properties_text",
    "settings_of_properties",
    "shown",
]

FOREIGN = frozenset(
    {
        "configStorePath",
        "controllerRequestThreadPoolQueueCapacity",
        "controllerThreadPoolNums",
        "controllerType",
        "electMasterMaxRetryCount",
        "isProcessReadEvent",
        "mappedFileSize",
        "processReadEvent",
        "rocketmqHome",
        "scanNotActiveBrokerInterval",
    }
)
"""Settings of RocketMQ's controllers without a meaning here, besides those of jRaft."""

_TLS = {
    "tls.server.mode": "tlsMode",
    "tls.server.certPath": "tlsCertificate",
    "tls.server.keyPath": "tlsKey",
    "tls.server.trustCertPath": "tlsAuthorities",
    "tls.enable": "tlsClient",
}
"""Settings of TLS by RocketMQ's names for them."""

_FIXED: dict[str, object] = {"is_fixed": True}
_GIVEN: dict[str, object] = {"is_given": True}
_BOUNDS = (1, (1 << 31) - 1)
_DIGITS_MAX = 19


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """
    The settings of one controller. Those without `_FIXED` may change while it runs.

    Attributes:
        listen: ``HOST:PORT`` where it listens; an empty host is every address.
        address: ``HOST:PORT`` where brokers and controllers reach it; empty: where it
            listens.
        nameserver: ``HOST:PORT`` of the embedded name server; equal to ``listen``: the
            same port; empty: no name server.
        store: directory of its records in LMDB.
        store_map_bytes: the largest size of that directory; new sets and ids are
            refused once the records fill half of it.
        zookeeper: the servers of the records instead, ``host:port,host:port``.
        zookeeper_root: the node above the records.
        zookeeper_credentials: the path of the credentials of its user there; empty:
            none.
        zookeeper_sasl: that user is one of SASL (DIGEST-MD5), which ZooKeeper knows.
        zookeeper_tls: connections to ZooKeeper speak TLS, with the files of `tls`.
        zookeeper_session_timeout: requested, in ms; after the death of a leader the
            records have no leader for this time. A leader whose calls to its records,
            those in LMDB too, stand still for as long gives the leadership up.
        new_cluster: an empty record store is that of a new cluster, also if brokers
            with ids are there.
        controller_group: the name of the group, for people.
        authentication: what happens to a request that no user may send: ``off``: no
            signature is looked at; ``permissive``: it is carried out, and said;
            ``enforcing``: it is refused.
        key_file: the path of the key file, which seals the users; empty: none.
        initial_users: the path of the sealed users of a new cluster; each is added if
            it has no record; empty: none.
        tls_mode: of its ports: ``disabled``, ``permissive`` or ``enforcing``.
        tls_certificate, tls_key, tls_authorities: paths of files in PEM; empty: none.
        tls_needs_client: only clients with a certificate of the authorities are taken.
        tls_client: its own requests to brokers speak TLS.
        log_format: of the lines on stderr, ``text`` or ``json``.
        enable_elect_unclean_master: any live broker may be elected if no better one can
            be.
        notify_broker_role_changed: notify brokers of elections; they also poll.
        drop_unlisted_broker_after: a broker that was never in a SyncStateSet, and is no
            learner, loses its id after this silence, in ms; 0: never.
        scan_inactive_master_interval: between two scans for sets without a master, in
            ms.
        given: the names of the settings that file or command line give; no setting.

    Raises:
        InvalidError: an address to listen on is invalid, or the form of the lines.
    """

    listen: str = field(default="127.0.0.1:9878", metadata=_FIXED)
    address: str = field(default="", metadata=_FIXED)
    nameserver: str = field(default="", metadata=_FIXED)
    store: str = field(default="", metadata=_FIXED)
    store_map_bytes: int = field(
        default=1 << 30, metadata={**_FIXED, "bounds": (1 << 20, 1 << 40)}
    )
    zookeeper: str = field(default="", metadata=_FIXED)
    zookeeper_root: str = field(default="/pystore", metadata=_FIXED)
    zookeeper_credentials: str = field(default="", metadata=_FIXED)
    zookeeper_sasl: bool = field(default=False, metadata=_FIXED)
    zookeeper_tls: bool = field(default=False, metadata=_FIXED)
    zookeeper_session_timeout: int = field(default=10_000, metadata=_FIXED)
    new_cluster: bool = field(default=False, metadata=_FIXED)
    controller_group: str = field(default="pystore", metadata=_FIXED)
    log_format: str = field(default="text", metadata=_FIXED)
    key_file: str = field(default="", metadata=_FIXED)
    initial_users: str = field(default="", metadata=_FIXED)
    tls_mode: str = field(default=TlsMode.DISABLED.value, metadata=_FIXED)
    tls_certificate: str = field(default="", metadata=_FIXED)
    tls_key: str = field(default="", metadata=_FIXED)
    tls_authorities: str = field(default="", metadata=_FIXED)
    tls_needs_client: bool = field(default=False, metadata=_FIXED)
    tls_client: bool = field(default=False, metadata=_FIXED)
    authentication: str = AccessMode.OFF.value
    enable_elect_unclean_master: bool = False
    notify_broker_role_changed: bool = True
    drop_unlisted_broker_after: int = field(
        default=7 * 86_400_000, metadata={"bounds": (0, 10**11)}
    )
    scan_inactive_master_interval: int = field(
        default=5000, metadata={"bounds": (100, 600_000)}
    )
    given: frozenset[str] = field(default=frozenset(), metadata=_GIVEN, compare=False)

    def __post_init__(self) -> None:
        _listen_address("listen", self.listen)
        if self.nameserver:
            _listen_address("nameserver", self.nameserver)
        if self.log_format not in LOG_FORMATS:
            raise InvalidError(
                f"logFormat={self.log_format}: expected {' or '.join(LOG_FORMATS)}"
            )
        if self.tls.needs_client and self.tls.mode is TlsMode.DISABLED:
            raise InvalidError("tlsNeedsClient has no effect while tlsMode is disabled")
        modes = [one.value for one in AccessMode]
        if self.authentication not in modes:
            raise InvalidError(
                f"authentication={self.authentication}: expected {', '.join(modes)}"
            )
        if self.authentication != AccessMode.OFF.value and not self.key_file:
            raise InvalidError(
                f"authentication={self.authentication} needs keyFile: there are no "
                "users without it"
            )

    @property
    def tls(self) -> TlsConfig:
        """
        The mode and the files of TLS.
        """
        return tls_config(
            self.tls_mode,
            self.tls_certificate,
            self.tls_key,
            self.tls_authorities,
            needs_client=self.tls_needs_client,
        )

    @property
    def listen_at(self) -> tuple[str, int]:
        """
        Host and port where it listens; an empty host is every address, port 0 any free
        port.
        """
        return _listen_address("listen", self.listen)

    @property
    def nameserver_at(self) -> tuple[str, int]:
        """
        Host and port of its name server.
        """
        return _listen_address("nameserver", self.nameserver)

    @property
    def shares_port(self) -> bool:
        """
        Whether the name server shares the controller's port.
        """
        return self.nameserver == self.listen

    def with_texts(
        self, texts: Mapping[str, str], *, is_running: bool
    ) -> ControllerConfig:
        """
        Returns the settings with some changed.

        Args:
            texts: the new values as text, by name.
            is_running: refuses settings that may not change while a controller runs.

        Raises:
            InvalidError: an unknown setting, an invalid value, or a fixed setting.
        """
        values: dict[str, Any] = {}
        for name, text in texts.items():
            if name not in _FORM:
                raise InvalidError(f"{name} is not a setting of a pystore controller")
            attribute, parse, is_fixed = _FORM[name]
            if is_running and is_fixed:
                raise InvalidError(
                    f"{name} cannot change while the controller runs: "
                    "change the file and restart it"
                )
            values[attribute] = parse(name, text)
        given = self.given if is_running else self.given | texts.keys()
        return replace(self, **values, given=given)


class ConfigFile(NamedTuple):
    """
    The content of a configuration file.

    Attributes:
        texts: the settings by their names, as text.
        said: messages for people.
        peers: the addresses of RocketMQ's controllers, itself included; empty: the
            file does not name them.
    """

    texts: dict[str, str]
    said: list[str]
    peers: tuple[str, ...] = ()

    def check_peers(self, where: str, zookeeper: str) -> None:
        """
        Refuses several controllers whose records would not be the same.

        Args:
            where: the file, for the message.
            zookeeper: the servers of the records, from the file or the command line.

        Raises:
            InvalidError: each of them would lead.
        """
        if len(self.peers) > 1 and not zookeeper:
            raise InvalidError(
                f"{where}: it names {len(self.peers)} controllers "
                f"({', '.join(self.peers)}), which need common records: start each "
                "with --zookeeper HOST:PORT,... (pystore has no Raft), or name one "
                "controller"
            )


def parse_toml(text: str, where: str) -> ConfigFile:
    """
    Returns the settings of a TOML file.

    Raises:
        InvalidError: the text is not TOML, or has tables.
    """
    texts = {}
    for name, value in parse_toml_text(text, where).items():
        if isinstance(value, bool):
            texts[name] = str(value).lower()
        elif isinstance(value, str | int):
            texts[name] = str(value)
        else:
            raise InvalidError(f"{where}: {name} is neither text nor a whole number")
    return _known(texts, where)


def settings_of_properties(values: Mapping[str, str], where: str) -> ConfigFile:
    """
    Returns the settings of a properties file of RocketMQ.

    Raises:
        InvalidError: RocketMQ's settings for its address contradict each other.
    """
    texts = dict(values)
    peers = _dledger_peers(texts, where) or _raft_peers(texts, where)
    return _known(_translated(texts), where)._replace(peers=peers)


def properties_text(texts: Mapping[str, str]) -> str:
    """
    Returns lines ``name=value`` in order.
    """
    return "".join(f"{name}={texts[name]}\n" for name in sorted(texts))


def shown(settings: ControllerConfig) -> dict[str, str]:
    """
    Returns all settings by their names, as text.
    """
    return {
        name: _text(getattr(settings, attribute))
        for name, (attribute, _, _) in _FORM.items()
    }


def _listen_address(name: str, text: str) -> tuple[str, int]:
    try:
        return parse_listen_address(text)
    except InvalidError as error:
        raise InvalidError(f"{name}: {error}") from error


def _dledger_peers(texts: dict[str, str], where: str) -> tuple[str, ...]:
    """
    The addresses of ``controllerDLegerPeers``; that of this controller is where it
    listens, if the file does not say it otherwise.
    """
    peers = texts.pop("controllerDLegerPeers", "")
    own = texts.pop("controllerDLegerSelfId", "")
    if not peers:
        return ()
    parts = [one.strip().partition("-") for one in peers.split(";") if one.strip()]
    by_id = {number: address for number, _, address in parts}
    if own not in by_id:
        raise InvalidError(
            f"{where}: controllerDLegerPeers has no {own!r}, the controllerDLegerSelfId"
        )
    _listen_as(texts, by_id[own])
    return tuple(by_id.values())


def _raft_peers(texts: dict[str, str], where: str) -> tuple[str, ...]:
    """
    The addresses of ``jRaftControllerRPCAddr``, in the order of ``jRaftInitConf``.
    """
    raft = _addresses(texts.get("jRaftInitConf", ""))
    remoting = _addresses(texts.get("jRaftControllerRPCAddr", ""))
    if not raft:
        return ()
    own = texts.get("jRaftServerId", "")
    if own not in raft:
        raise InvalidError(f"{where}: jRaftInitConf has no {own!r}, the jRaftServerId")
    if len(remoting) == len(raft):
        _listen_as(texts, remoting[raft.index(own)])
        return remoting
    return raft


def _addresses(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text.split(",") if one.strip())


def _listen_as(texts: dict[str, str], address: str) -> None:
    """
    Brokers reach it at this address, so it listens there.
    """
    host, _, port = address.rpartition(":")
    texts.setdefault("address", address)
    bound = texts.pop("bindAddress", "") or host
    texts.pop("listenPort", "")
    texts.setdefault("listen", f"{bound}:{port}")


def _translated(values: Mapping[str, str]) -> dict[str, str]:
    """
    Returns our settings for RocketMQ's address, group and directory.
    """
    texts = dict(values)
    host, port = texts.pop("bindAddress", ""), texts.pop("listenPort", "")
    group = texts.pop("controllerDLegerGroup", "")
    path = texts.pop("controllerStorePath", "")
    if port:
        texts.setdefault("listen", f"{host or '127.0.0.1'}:{port}")
    if group:
        texts.setdefault("controllerGroup", group)
    for theirs, ours in _TLS.items():
        if theirs in texts:
            texts.setdefault(ours, texts.pop(theirs))
    if texts.pop("tls.server.need.client.auth", "") == "require":
        texts.setdefault("tlsNeedsClient", "true")
    if texts.pop("authenticationEnabled", "false").lower() == "true":
        texts.setdefault("authentication", AccessMode.ENFORCING.value)
    if path and "zookeeper" not in texts:
        texts.setdefault("store", path)
    return texts


def _known(texts: dict[str, str], where: str) -> ConfigFile:
    passed = sorted(
        name for name in texts if name in FOREIGN or name.startswith("jRaft")
    )
    said = [f"{where}: {name} has no meaning here and is ignored" for name in passed]
    known = {name: texts[name] for name in texts if name not in passed}
    return ConfigFile(known, said)


def _parse_bool(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidError(f"{name}={text} is neither true nor false")
    return text.lower() == "true"


def _number_parser(setting: Field[Any]) -> Callable[[str, str], object]:
    lowest, highest = setting.metadata.get("bounds", _BOUNDS)
    unit = "bytes" if setting.name.endswith("_bytes") else "milliseconds"

    def parse(name: str, text: str) -> int:
        is_number = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
        if not is_number or not lowest <= int(text) <= highest:
            raise InvalidError(
                f"{name}={text[:64]} is not a number of {unit} from {lowest} to "
                f"{highest}"
            )
        return int(text)

    return parse


def _parse_text(_: str, text: str) -> str:
    return text


def _parser(setting: Field[Any]) -> Callable[[str, str], object]:
    if setting.type == "int":
        return _number_parser(setting)
    return _parse_bool if setting.type == "bool" else _parse_text


_FORM = {
    wire_name(one.name): (one.name, _parser(one), "is_fixed" in one.metadata)
    for one in fields(ControllerConfig)
    if "is_given" not in one.metadata
}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
