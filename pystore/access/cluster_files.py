"""
The files of a new cluster that enforces from its first start: keys, certificates, users
and configurations, by the host that gets them.

Source: docs/security.md, *A new cluster*.
"""

from __future__ import annotations

import datetime as dt
import json
import secrets
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pystore.access.certificates import CertificateAuthority, PemPair
from pystore.access.credentials import credentials_text
from pystore.access.key_file import KeyFile, new_key
from pystore.access.roles import UserRole
from pystore.access.user_codec import UserAction, UserChange, seal_change
from pystore.access.users import check_user_name
from pystore.errors import FormatError, InvalidError
from pystore.net.address import parse_address
from pystore.remoting.signature import Credentials

__all__ = ["ClusterPlan", "cluster_files", "initial_changes"]

_SECRET_BYTES = 24
_USERS = {
    "operator": UserRole.OPERATOR,
    "brokers": UserRole.BROKER,
    "clients": UserRole.READER,
}


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """
    Which processes there will be.

    Attributes:
        name: of the cluster.
        controllers: ``HOST:PORT`` of each.
        brokers: name of the set and ``HOST:PORT`` of each broker.
        name_server_port: where controllers are name servers, too.
        zookeeper: the servers of the records, for several controllers.
        days: how long the certificates are valid.

    Raises:
        InvalidError: there is no controller, or several without ZooKeeper, or an
            address is none.
    """

    name: str
    controllers: Sequence[str]
    brokers: Sequence[tuple[str, str]]
    name_server_port: int = 9876
    zookeeper: str = ""
    days: int = 825

    def __post_init__(self) -> None:
        if not self.controllers:
            raise InvalidError("a cluster has a controller: give its HOST:PORT")
        if len(self.controllers) > 1 and not self.zookeeper:
            raise InvalidError(
                "several controllers need common records: give --zookeeper HOSTS"
            )
        places = [*self.controllers, *(address for _, address in self.brokers)]
        for one in places:
            parse_address(one)
        if len(set(places)) != len(places):
            raise InvalidError("two processes have the same address")

    @property
    def name_servers(self) -> str:
        """
        The addresses of all name servers.
        """
        hosts = dict.fromkeys(parse_address(one)[0] for one in self.controllers)
        return ";".join(_joined(host, self.name_server_port) for host in hosts)


def cluster_files(plan: ClusterPlan, now: dt.datetime) -> dict[str, bytes]:
    """
    Returns the content of each file by its path. All but certificates and
    configurations of RocketMQ are secrets.
    """
    key = new_key()
    keys = KeyFile([b64decode(key)])
    authority = CertificateAuthority(f"{plan.name} authority", plan.days, now)
    users = {name: secrets.token_urlsafe(_SECRET_BYTES) for name in _USERS}
    credentials = {
        name: credentials_text(Credentials(name, secret)).encode()
        for name, secret in users.items()
    }
    files = {
        "cluster.key": f"{key}\n".encode(),
        "ca.pem": authority.pair.certificate,
        "ca.key": authority.pair.key,
        "operator.yml": credentials["operator"],
        "clients.yml": credentials["clients"],
    }
    initial = "".join(_initial_lines(users, keys)).encode()
    pairs: dict[str, PemPair] = {}
    for number, address in enumerate(plan.controllers, 1):
        host, _ = parse_address(address)
        pairs.setdefault(host, authority.issue(host))
        place = f"controller-{number}"
        files |= _with_certificate(place, pairs[host], authority.pair.certificate)
        files[f"{place}/cluster.key"] = files["cluster.key"]
        files[f"{place}/users.sealed"] = initial
        files[f"{place}/controller.toml"] = _controller(plan, address).encode()
    for number, (name, address) in enumerate(plan.brokers, 1):
        host, _ = parse_address(address)
        pairs.setdefault(host, authority.issue(host))
        place = f"broker-{number}"
        files |= _with_certificate(place, pairs[host], authority.pair.certificate)
        files[f"{place}/brokers.yml"] = credentials["brokers"]
        files[f"{place}/broker.toml"] = _broker(plan, name, address).encode()
    files |= _of_rocketmq(plan, users["brokers"], credentials["operator"])
    return files


def initial_changes(text: str, where: str) -> Iterator[tuple[str, bytes]]:
    """
    Yields the name and the sealed change of each user of a new cluster.

    Args:
        text: the content of the file.
        where: the file, for the message.

    Raises:
        FormatError: a line is none of these.
    """
    for number, line in enumerate(text.splitlines(), 1):
        name, _, sealed = line.partition(" ")
        try:
            check_user_name(name)
            if not sealed:
                raise InvalidError("nothing is sealed")
            yield name, b64decode(sealed, validate=True)
        except (Base64Error, InvalidError) as error:
            # Another file.
            raise FormatError(
                f"{where}: line {number} is no sealed user", path=where
            ) from error


def _initial_lines(users: Mapping[str, str], keys: KeyFile) -> Iterator[str]:
    for name, secret in users.items():
        roles = frozenset({_USERS[name]})
        change = UserChange(UserAction.ADD, name, 1, secret, roles)
        yield f"{name} {b64encode(seal_change(change, keys)).decode()}\n"


def _with_certificate(place: str, pair: PemPair, authority: bytes) -> dict[str, bytes]:
    return {
        f"{place}/ca.pem": authority,
        f"{place}/certificate.pem": pair.certificate,
        f"{place}/certificate.key": pair.key,
    }


_TLS = """\
tlsMode = "enforcing"
tlsCertificate = "certificate.pem"
tlsKey = "certificate.key"
tlsAuthorities = "ca.pem"
tlsClient = true
"""


def _controller(plan: ClusterPlan, address: str) -> str:
    host, _ = parse_address(address)
    records = 'store = "records"'
    if plan.zookeeper:
        records = f"zookeeper = {json.dumps(plan.zookeeper)}"
    return (
        f"listen = {json.dumps(address)}\n"
        f"nameserver = {json.dumps(_joined(host, plan.name_server_port))}\n"
        f"{records}\n"
        'keyFile = "cluster.key"\n'
        'initialUsers = "users.sealed"\n'
        'authentication = "enforcing"\n'
        f"{_TLS}"
    )


def _broker(plan: ClusterPlan, name: str, address: str) -> str:
    return (
        f"brokerClusterName = {json.dumps(plan.name)}\n"
        f"brokerName = {json.dumps(name)}\n"
        f"address = {json.dumps(address)}\n"
        'store = "store"\n'
        f"controllerAddr = {json.dumps(list(plan.controllers))}\n"
        f"namesrvAddr = {json.dumps(plan.name_servers)}\n"
        'credentialsFile = "brokers.yml"\n'
        f"{_TLS}"
    )


def _of_rocketmq(plan: ClusterPlan, secret: str, tools: bytes) -> dict[str, bytes]:
    """
    Returns what brokers and tools of RocketMQ need beside their own settings.
    """
    own = json.dumps({"accessKey": "brokers", "secretKey": secret})
    provider = (
        "org.apache.rocketmq.auth.authentication.provider."
        "LocalAuthenticationMetadataProvider"
    )
    broker = (
        f"brokerClusterName={plan.name}\n"
        "enableControllerMode=true\n"
        f"controllerAddr={';'.join(plan.controllers)}\n"
        f"namesrvAddr={plan.name_servers}\n"
        f"authenticationMetadataProvider={provider}\n"
        f"innerClientAuthenticationCredentials={own}\n"
    )
    tls = (
        "tls.test.mode.enable=false\n"
        "tls.client.authServer=true\n"
        "tls.client.trustCertPath=ca.pem\n"
        "tls.server.mode=permissive\n"
        "tls.server.certPath=certificate.pem\n"
        "tls.server.keyPath=certificate.key\n"
    )
    return {
        "rocketmq/broker.conf": broker.encode(),
        "rocketmq/tls.properties": tls.encode(),
        "rocketmq/tools.yml": tools,
    }


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
