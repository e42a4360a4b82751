"""
Brokers, clients and mqadmin of RocketMQ under a controller and a name server of
pystore that enforce: they take part with the settings that they have.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from interop import jvm
from interop.guarded_set import AUTHENTICATES, SECRET, GuardedSet, guarded

_VERSIONS = (jvm.DEFAULT_VERSION, "5.5.0")


@pytest.fixture(
    params=[(version, has_tls) for version in _VERSIONS for has_tls in (False, True)],
    ids=lambda param: f"{param[0]}-{'tls' if param[1] else 'plain'}",
)
def brokers(
    compiled_tool: None,  # noqa: ARG001
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[GuardedSet]:
    """
    A set whose controller enforces, of each version of RocketMQ: users alone, and
    users with TLS.
    """
    version, has_tls = request.param
    jvm.fetch(version, processes=True)
    with guarded(tmp_path, version, has_tls=has_tls) as made:
        yield made


@pytest.fixture(params=_VERSIONS)
def authenticating_brokers(
    compiled_tool: None,  # noqa: ARG001
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[GuardedSet]:
    """
    A set whose controller enforces, of brokers that authenticate their own clients.
    """
    jvm.fetch(request.param, processes=True)
    with guarded(tmp_path, request.param, settings=AUTHENTICATES) as made:
        yield made


def test_rocketmqs_brokers_clients_and_mqadmin_take_part_with_their_settings(
    brokers: GuardedSet,
) -> None:
    """
    Through a failover; who has no secret, or a wrong one, does not.
    """
    for number in (1, 2):
        brokers.start_broker(number)
    first = brokers.await_master(2)
    words: tuple[str, ...] = ("count=50", "retry=1", "size=100", "quiet")
    assert 0 == brokers.client("produce", *words)
    second = _fail_over(brokers, first, words)

    # A stranger learns nothing from the name server, nor from the controller.
    brokers.await_refusal("the request is refused", "consume", user="stranger")
    told = brokers.admin.run("getSyncStateSet", "-a", brokers.address, "-b", "broker-a")
    assert f"127.0.0.1:{brokers.ports[second]}" in told
    elect: tuple[str, ...] = ("electMaster", "-a", brokers.address, "-b", str(second))
    elect = (*elect, "-c", "rig", "-bn", "broker-a")
    refused = brokers.stranger.run(*elect)
    assert "the request is refused" in refused, refused
    said = brokers.controller.said
    assert any("its signature is not one of a known user" in one for one in said)
    assert not any("a secret of" in one for one in said)

    # A broker with another secret registers nowhere.
    brokers.start_broker(3, "not the secret")
    brokers.kill_broker(first)
    brokers.await_master(1)
    brokers.start_broker(first)
    assert second == brokers.await_master(2)
    found = brokers.admin.run(
        "getSyncStateSet", "-a", brokers.address, "-b", "broker-a"
    )
    assert str(brokers.ports[3]) not in found


def test_brokers_of_rocketmq_that_authenticate_their_own_clients_take_part(
    authenticating_brokers: GuardedSet,
) -> None:
    """
    Users whom both know produce and consume, through a failover. Each side refuses
    those that it does not know.
    """
    brokers = authenticating_brokers
    for number in (1, 2):
        brokers.start_broker(number)
    first = brokers.await_master(2)
    _create_user(brokers, "reader", SECRET.format("reader"))
    words: tuple[str, ...] = ("count=50", "retry=1", "size=100")
    assert 0 == brokers.client("produce", *words)

    # The name server refuses one secret, the brokers an unknown user and another one.
    refused = brokers.await_refusal
    refused("the request is refused", "consume", user="reader", secret="not the secret")
    refused("User:guest is not found", "produce", "count=1", user="guest")
    _create_user(brokers, "guest", "not the secret")
    refused("check signature failed", "produce", "count=1", user="guest")
    brokers.controller.wait_for("its signature is not one of a known user")
    assert "User:guest is authenticated failed" in brokers.log_of(first, "auth_audit")

    second = _fail_over(brokers, first, words)
    # It refused the notice of our controllers, whose user it does not know: it learned
    # from its next question to them that it is master.
    assert "1008:" in brokers.log_of(second, "broker_traffic")
    assert "Receive notifyBrokerRoleChanged" not in brokers.log_of(second, "broker")


def _create_user(brokers: GuardedSet, user: str, secret: str) -> None:
    """
    Creates a user at each broker; brokers do not tell each other.
    """
    at = ("-n", brokers.names, "-c", "rig")
    said = brokers.inner.run("createUser", *at, "-u", user, "-p", secret)
    assert 2 == said.count("success"), said


def _fail_over(brokers: GuardedSet, master: int, words: tuple[str, ...]) -> int:
    """
    Kills the master, and starts it again; a producer and a consumer go on. Returns the
    number of the next one.
    """
    brokers.kill_broker(master)
    second = brokers.await_master(1, other_than=master)
    assert 0 == brokers.client("produce", *words, "from=50", "poll=500")
    brokers.start_broker(master)
    assert second == brokers.await_master(2)
    assert 0 == brokers.client("consume", "expect=100")
    return second
