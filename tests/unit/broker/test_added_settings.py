"""
The settings of a node that is added to a host, as far as the host allows them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystore.broker.access_settings import AccessSettings
from pystore.broker.added_settings import added_node, given_of
from pystore.broker.host_port_settings import HostPortSettings
from pystore.errors import InvalidError


@pytest.fixture
def host(tmp_path: Path) -> HostPortSettings:
    """
    A host with ten ports, which are five nodes.
    """
    return HostPortSettings(
        "10.0.0.4:10811",
        ("10.0.0.1:9878", "10.0.0.2:9878"),
        tmp_path / "root",
        (10911, 10920),
        access=AccessSettings(Path("/etc/pystore/broker.yml")),
        defaults={"minInSyncReplicas": "2", "maxMessageSize": "9000"},
    )


def test_the_host_chooses_what_the_settings_leave_open(host: HostPortSettings) -> None:
    """
    Port, place of the store, controllers and access; of the others its defaults.
    """
    given = given_of({"brokerName": "b", "maxMessageSize": "8000"}, host, [], "f")
    assert "10911" == given["listenPort"]
    one = added_node(given, host, "f")
    assert ("b", "DefaultCluster") == (one.name, one.config.cluster)
    assert "10.0.0.4:10911" == one.config.address
    assert "10.0.0.4:10912" == one.config.ha_address
    assert host.store_root / "b" == one.config.store
    assert host.controllers == one.config.controllers
    assert host.access == one.access
    assert 2 == one.config.rules.min_in_sync
    assert None is one.config.retention
    assert 8000 == one.options["message_size_max"]


def test_the_first_two_free_ports_are_taken(host: HostPortSettings) -> None:
    """
    A broker uses two; the host port is none of them.
    """
    ports = [
        given_of({"brokerName": "b"}, host, taken, "f")["listenPort"]
        for taken in ([], [10911, 10912], [10912], [10914, 10911])
    ]
    assert ["10911", "10913", "10913", "10915"] == ports
    with pytest.raises(InvalidError, match="all of nodePorts=10911-10920 are taken"):
        given_of({"brokerName": "b"}, host, range(10911, 10921), "f")


def test_a_broker_conf_of_rocketmq_is_taken_as_it_is(host: HostPortSettings) -> None:
    """
    Settings without a meaning here are ignored.
    """
    values = {
        "brokerClusterName": "c",
        "brokerName": "b",
        "brokerId": "-1",
        "brokerRole": "SLAVE",
        "brokerIP1": "10.0.0.4",
        "enableControllerMode": "true",
        "controllerAddr": "10.0.0.2:9878;10.0.0.1:9878",
        "listenPort": "30911",
        "storePathRootDir": str(host.store_root / "deep" / "b"),
        "storePathCommitLog": str(host.store_root / "deep" / "b" / "commitlog"),
        "deleteWhen": "04",
        "fileReservedTime": "48",
    }
    one = added_node(given_of(values, host, [], "f"), host, "f")
    assert ("c", "10.0.0.4:30911") == (one.config.cluster, one.config.address)
    assert host.store_root / "deep" / "b" == one.config.store
    assert one.config.retention is not None


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"brokerName": ""}, "brokerName is missing"),
        ({"name": ".b"}, "does not begin with a full stop"),
        ({"storePathRootDir": "/elsewhere/b"}, "stores of added nodes are in"),
        ({"storePathRootDir": "ROOT"}, "stores of added nodes are in"),
        ({"storePathRootDir": "ROOT/../b"}, "stores of added nodes are in"),
        ({"storePathRootDir": "ROOT/link/b"}, "stores of added nodes are in"),
        ({"storePathRootDir": "ROOT/nodes/b"}, "stores of added nodes are in"),
        ({"name": "nodes"}, "stores of added nodes are in"),
        ({"brokerIP1": "10.0.0.5"}, "have the address of the host"),
        ({"controllerAddr": "10.0.0.9:9878"}, "have the controllers of the host"),
        ({"address": "10.0.0.4:1"}, "address=10.0.0.4:1: the host decides it"),
        ({"credentialsFile": "/x"}, "credentialsFile=/x: the host decides it"),
        ({"tlsMode": "disabled"}, "tlsMode=disabled: the host decides it"),
        ({"eventHistory": "/x"}, "eventHistory=/x: the host decides it"),
        ({"brokerId": "0"}, "the controller allocates the id"),
        ({"listenPort": "no"}, "expected a port"),
        ({"mappedFileSizeCommitLog": "x"}, "expected a number of bytes"),
    ],
)
def test_what_a_host_does_not_allow_is_refused(
    values: dict[str, str], error: str, host: HostPortSettings, tmp_path: Path
) -> None:
    """
    One line, with the setting; links count as what they point at.
    """
    host.store_root.mkdir()
    (host.store_root / "link").symlink_to(tmp_path)
    found = {"brokerName": "b", **values}
    texts = {
        name: one.replace("ROOT", str(host.store_root)) for name, one in found.items()
    }
    with pytest.raises(InvalidError, match=error) as caught:
        added_node(given_of(texts, host, [], "f"), host, "f")
    assert "\n" not in str(caught.value)
