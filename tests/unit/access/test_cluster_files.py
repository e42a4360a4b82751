"""
The files of a new cluster.
"""

from __future__ import annotations

import datetime as dt
import tomllib
from base64 import b64decode

import pytest

from pystore.access.cluster_files import ClusterPlan, cluster_files, initial_changes
from pystore.access.key_file import KeyFile
from pystore.access.roles import UserRole
from pystore.access.user_codec import open_change
from pystore.broker.settings import host_of_toml
from pystore.controller.server.config import ControllerConfig, parse_toml
from pystore.errors import FormatError
from pystore.rocketmq.properties_file import parse_properties_text

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
PLAN = ClusterPlan(
    "c",
    ["10.0.0.1:9878", "10.0.0.2:9878"],
    [("a", "10.0.0.11:10911"), ("b", "[::1]:10911")],
    zookeeper="z1:2181,z2:2181",
)


def test_each_configuration_is_one_that_its_process_takes() -> None:
    """
    With everything on.
    """
    files = cluster_files(PLAN, NOW)
    for number, address in enumerate(PLAN.controllers, 1):
        text = files[f"controller-{number}/controller.toml"].decode()
        texts = parse_toml(text, "f").texts
        config = ControllerConfig().with_texts(texts, is_running=False)
        assert (address, "enforcing", "enforcing", "z1:2181,z2:2181") == (
            config.listen,
            config.authentication,
            config.tls_mode,
            config.zookeeper,
        )
    for number, (name, address) in enumerate(PLAN.brokers, 1):
        text = files[f"broker-{number}/broker.toml"].decode()
        (node,) = host_of_toml(text, "f").nodes
        assert (name, address) == (node.config.broker_name, node.config.address)
        assert tuple(PLAN.controllers) == node.config.controllers
        assert ("10.0.0.1:9876", "10.0.0.2:9876") == node.config.name_servers
        assert node.access.is_tls_client
    theirs = parse_properties_text(files["rocketmq/broker.conf"].decode(), "f")
    assert "10.0.0.1:9878;10.0.0.2:9878" == theirs["controllerAddr"]


def test_the_users_are_sealed_and_their_secrets_are_those_of_the_files() -> None:
    """
    Three users; no file but those of credentials has a secret of one in the clear.
    """
    files = cluster_files(PLAN, NOW)
    keys = KeyFile([b64decode(files["cluster.key"])])
    text = files["controller-1/users.sealed"].decode()
    found = {
        name: open_change(name, sealed, keys)
        for name, sealed in initial_changes(text, "f")
    }
    roles = {name: set(one.roles) for name, one in found.items()}
    assert {
        "operator": {UserRole.OPERATOR},
        "brokers": {UserRole.BROKER},
        "clients": {UserRole.READER},
    } == roles
    places = {
        "operator": {"operator.yml", "rocketmq/tools.yml"},
        "brokers": {
            "broker-1/brokers.yml",
            "broker-2/brokers.yml",
            "rocketmq/broker.conf",
        },
        "clients": {"clients.yml"},
    }
    for name, one in found.items():
        have = {path for path, text in files.items() if one.secret.encode() in text}
        assert places[name] == have
    assert 3 == len({one.secret for one in found.values()})


def test_two_clusters_have_nothing_secret_in_common() -> None:
    """
    Every key and secret is random.
    """
    first, second = cluster_files(PLAN, NOW), cluster_files(PLAN, NOW)
    same = {path for path in first if first[path] == second[path]}
    assert {path for path in first if path.endswith(".toml")} | {
        "rocketmq/tls.properties"
    } == same


@pytest.mark.parametrize("text", ["operator", "operator !", " AAAA", "a b c"])
def test_another_file_is_no_file_of_users(text: str) -> None:
    """
    The line is named, and not shown.
    """
    with pytest.raises(FormatError, match="f: line 1 is no sealed user"):
        list(initial_changes(text, "f"))


def test_toml_is_written_for_any_name() -> None:
    """
    Quotes and letters of any script.
    """
    plan = ClusterPlan('c "1"', ["h:9878"], [("bröker", "g:10911")])
    text = cluster_files(plan, NOW)["broker-1/broker.toml"].decode()
    found = tomllib.loads(text)
    assert ('c "1"', "bröker") == (found["brokerClusterName"], found["brokerName"])
