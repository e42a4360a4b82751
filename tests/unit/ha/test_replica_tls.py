"""
Links of replicas over TLS: real stores, real links, one process.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lib.certificates import Authority
from lib.ha.master_fixture import data_of
from lib.ha.replica_fixture import WAIT_MS, ReplicaStage
from lib.store.stores import message

from pystore.ha.insync.ack import Ack
from pystore.ha.wire.proof import LinkGuard
from pystore.net.tls import ClientTls, ServerTls, TlsConfig, TlsMode


@pytest.fixture
def stage(tmp_path: Path) -> ReplicaStage:
    """No replica has started yet."""
    return ReplicaStage(tmp_path)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Signs the certificates of a test."""
    (tmp_path / "tls").mkdir()
    return Authority(tmp_path / "tls")


def settings(
    authority: Authority,
    mode: TlsMode = TlsMode.ENFORCING,
    *,
    is_client: bool = True,
    needs_client: bool = False,
) -> dict[str, Any]:
    """The settings of a replica."""
    certificate, key = authority.issue("server")
    config = TlsConfig(mode, certificate, key, authority.path, needs_client)
    return {
        "server_tls": ServerTls(config),
        "client_tls": ClientTls(config) if is_client else None,
    }


def test_a_log_of_many_segments_catches_up_over_tls(
    stage: ReplicaStage, authority: Authority
) -> None:
    """Byte for byte; `all` is reached, also after a failover."""
    with stage:
        first, second = (stage.start(one, **settings(authority)) for one in (1, 2))
        secured = stage.elect(1, first)
        assert secured.address
        for number in range(30):
            first.append([message(number)] * 200, Ack.LEADER)
        stage.controller.wait_for({1, 2})
        assert first.append(message(1), Ack.ALL, WAIT_MS).is_reached
        stage.elect(2, second)
        stage.controller.wait_for({1, 2})
        assert second.append(message(2), Ack.ALL, WAIT_MS).is_reached
    assert data_of(stage.store(1)) == data_of(stage.store(2))


def test_a_permissive_port_takes_both_kinds_of_slaves(
    stage: ReplicaStage, authority: Authority
) -> None:
    """While a running set is switched."""
    with stage:
        first = stage.start(1, **settings(authority, TlsMode.PERMISSIVE))
        stage.start(2)
        stage.start(3, **settings(authority))
        stage.elect(1, first)
        stage.controller.wait_for({1, 2, 3})
        assert first.append(message(1), Ack.ALL, WAIT_MS).is_reached


@pytest.mark.parametrize("may_lack", [False, True])
def test_an_enforcing_port_takes_plain_slaves_at_named_addresses_only(
    stage: ReplicaStage, authority: Authority, *, may_lack: bool
) -> None:
    """As those of RocketMQ, which speak no TLS there."""
    guard = LinkGuard(may_lack=lambda _: may_lack)
    with stage:
        first = stage.start(1, guard=lambda: guard, **settings(authority))
        second = stage.start(2)
        stage.elect(1, first)
        if may_lack:
            stage.controller.wait_for({1, 2})
        else:
            stage.wait_until(second, lambda it: bool(it.problem))
            assert _says(stage, "does not speak TLS, which this port requires")


def _says(stage: ReplicaStage, text: str) -> bool:
    return any(text in one for one in stage.said)


def _stranger(folder: Path) -> Authority:
    (folder / "other").mkdir()
    return Authority(folder / "other", "other")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda own, _: {**settings(own), "server_tls": None},
            "this port does not: tlsMode",
        ),
        (
            lambda own, other: {**settings(own), **_server(other)},
            "unable to get local issuer certificate",
        ),
        (
            lambda own, _: {**settings(own), **_server(own, host="10.1.2.3")},
            "IP address mismatch",
        ),
        (
            lambda own, _: {**settings(own), **_server(own, days=-1)},
            "certificate has expired",
        ),
    ],
    ids=["plain port", "another authority", "another name", "expired"],
)
def test_a_slave_takes_no_master_without_the_right_certificate(
    stage: ReplicaStage,
    authority: Authority,
    tmp_path: Path,
    make: Callable[[Authority, Authority], dict[str, Any]],
    reason: str,
) -> None:
    """And says why."""
    with stage:
        first = stage.start(1, **make(authority, _stranger(tmp_path)))
        second = stage.start(2, **settings(authority))
        stage.elect(1, first)
        stage.wait_until(second, lambda it: "TLS" in it.problem)
        stage.wait_until(second, lambda _: _says(stage, reason))
        assert second.log.log().received_offset == 0


def _server(
    authority: Authority, host: str = "127.0.0.1", days: float = 1
) -> dict[str, Any]:
    certificate, key = authority.issue("master", host, days=days)
    return {"server_tls": ServerTls(TlsConfig(TlsMode.ENFORCING, certificate, key))}


def test_a_master_may_require_certificates_of_slaves(
    stage: ReplicaStage, authority: Authority
) -> None:
    """Under a controller that gives no secrets they take the place of proofs."""
    only_known = TlsConfig(authorities=authority.path)
    with stage:
        first = stage.start(1, **settings(authority, needs_client=True))
        stage.start(2, **settings(authority))
        third = stage.start(3, client_tls=ClientTls(only_known))
        stage.elect(1, first)
        stage.controller.wait_for({1, 2})
        stage.wait_until(third, lambda _: _says(stage, "did not return a certificate"))
        assert third.log.log().received_offset == 0


def test_a_stranger_that_begins_no_tls_is_closed(
    stage: ReplicaStage, authority: Authority
) -> None:
    """Half a record, nothing, or other bytes; slaves are served meanwhile."""
    with stage:
        first = stage.start(1, **settings(authority))
        stage.start(2, **settings(authority))
        address = stage.elect(1, first).address
        host, _, port = address.rpartition(":")
        for raw in (b"\x16\x03\x01\x02\x00\x01", b"\x16garbage", b"GET / HTTP/1.1\r\n"):
            with socket.create_connection((host, int(port)), timeout=20) as stranger:
                stranger.sendall(raw)
                with contextlib.suppress(OSError):
                    # It may be closed already.
                    stranger.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionResetError):
                    # Closed with bytes that were not read.
                    while stranger.recv(1 << 16):
                        pass
        stage.controller.wait_for({1, 2})
        assert first.append(message(1), Ack.ALL, WAIT_MS).is_reached
