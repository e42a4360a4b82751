"""
A record store over TLS and SASL, on a real ZooKeeper.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.certificates import Authority
from lib.remoting.record_stores import put
from lib.remoting.zookeeper_server import ZookeeperServer, free_ports, missing

from pystore.errors import UnavailableError

pytest.importorskip("kazoo", reason="needs the extra 'zookeeper'")
from pystore.records.zookeeper_access import ZookeeperTls, ZookeeperUser
from pystore.records.zookeeper_store import ZookeeperStore

# kazoo leaves sockets of refused handshakes to the collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <ssl:ResourceWarning")

USER = ZookeeperUser("pystore", "a secret", is_sasl=True)
JAAS = """\
Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_pystore="a secret"
    user_another="its secret";
};
"""


@pytest.fixture(autouse=True)
def sockets_collected() -> Iterator[None]:
    """Sockets of refused handshakes go here, not in a later test, which would fail."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Signs certificates."""
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def servers(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[tuple[str, str]]:
    """The addresses of a server: plain, and over TLS with a certificate of clients."""
    if reason := missing():
        pytest.skip(f"{reason} (ZooKeeper is in PySpark's jars)")
    folder = tmp_path_factory.mktemp("zookeeper")
    certificate, key = authority.issue("zookeeper")
    store = folder / "store.pem"
    store.write_bytes(key.read_bytes() + certificate.read_bytes())
    jaas = folder / "jaas.conf"
    jaas.write_text(JAAS)
    plain, secure = free_ports(2)
    server = ZookeeperServer(
        folder / "1",
        plain,
        more=(
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
            f"secureClientPort={secure}",
            "secureClientPortAddress=127.0.0.1",
            f"ssl.keyStore.location={store}",
            "ssl.keyStore.type=PEM",
            f"ssl.trustStore.location={authority.path}",
            "ssl.trustStore.type=PEM",
            "ssl.clientAuth=need",
            "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        ),
        options=(f"-Djava.security.auth.login.config={jaas}",),
    )
    try:
        server.await_mode()
        yield f"127.0.0.1:{plain}", f"127.0.0.1:{secure}"
    finally:
        server.kill()


def opened(hosts: str, **changes: object) -> ZookeeperStore:
    """A session that gives up soon."""
    return ZookeeperStore(hosts, timeout_s=5.0, **changes)  # type: ignore[arg-type]


def test_records_are_read_and_written_over_tls(
    servers: tuple[str, str], authority: Authority
) -> None:
    """With a certificate that the servers know, as they ask for one."""
    certificate, key = authority.issue("controller")
    tls = ZookeeperTls(authority.path, certificate, key)
    store = opened(servers[1], root="/tls", tls=tls)
    try:
        put(store, "a", b"1")
        found = store.get("a")
        assert found is not None
        assert found.value == b"1"
    finally:
        store.close()


def test_a_server_of_another_authority_is_not_taken(
    servers: tuple[str, str], authority: Authority, tmp_path: Path
) -> None:
    """Neither plain bytes to the secure port, nor TLS without the certificate."""
    certificate, key = authority.issue("controller")
    stranger = Authority(tmp_path, "other")
    for tls in (
        None,
        ZookeeperTls(authority.path),
        ZookeeperTls(stranger.path, certificate, key),
    ):
        with pytest.raises(UnavailableError, match="does not answer"):
            opened(servers[1], root="/tls", tls=tls)


def test_nodes_of_a_user_of_sasl_are_for_it_only(servers: tuple[str, str]) -> None:
    """By its name; the password is the server's to check."""
    store = opened(servers[0], root="/sasl", user=USER)
    try:
        put(store, "a", b"1")
        assert store.get("a") is not None
        with pytest.raises(UnavailableError, match="is not for all: see zookeeperCred"):
            opened(servers[0], root="/sasl")
        other = ZookeeperUser("another", "its secret", is_sasl=True)
        with pytest.raises(UnavailableError, match="is not for user another"):
            opened(servers[0], root="/sasl", user=other)
        wrong = ZookeeperUser("pystore", "another secret", is_sasl=True)
        with pytest.raises(UnavailableError) as raised:
            opened(servers[0], root="/sasl", user=wrong)
        assert "another secret" not in str(raised.value)
    finally:
        store.close()
