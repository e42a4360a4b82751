"""
The settings of a host port.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystore.broker.settings import host_of_toml
from pystore.errors import InvalidError

HOST = """
[host]
hostAddress = "10.0.0.4:10811"
controllerAddr = ["10.0.0.1:9878", "10.0.0.2:9878"]
storeRoot = "/data/pystore"
"""
NODE = """
[[node]]
brokerName = "b"
address = "10.0.0.4:10911"
store = "/data/b"
controllerAddr = "10.0.0.1:9878"
"""


def test_a_host_with_a_port_may_have_no_node() -> None:
    """
    A spare: its control socket is beside the root of its stores.
    """
    config = host_of_toml(
        HOST
        + 'rack = "r1"\nnodePorts = "10911-10999"\n[defaults]\nminInSyncReplicas = 2\n',
        "f",
    )
    assert () == config.nodes
    assert Path("/data/pystore.sock") == config.socket
    port = config.port
    assert port is not None
    assert ("10.0.0.4", "r1", (10911, 10999)) == (port.host, port.rack, port.ports)
    assert ("10.0.0.1:9878", "10.0.0.2:9878") == port.controllers
    assert {"minInSyncReplicas": "2"} == port.defaults


def test_a_host_may_have_configured_nodes_too() -> None:
    """
    And one without a port is as it was.
    """
    config = host_of_toml(HOST + NODE, "f")
    assert ["b"] == [one.name for one in config.nodes]
    assert config.port is not None
    assert Path("/data/b.sock") == config.socket
    assert None is host_of_toml(NODE, "f").port


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('[host]\nrack = "r"' + NODE, "rack is for a host that takes nodes"),
        (
            "[defaults]\nmaxMessageSize = 9" + NODE,
            r"\[defaults\] is for a host that takes nodes",
        ),
        ('[host]\nsocket = "/s"', "address is missing"),
        (HOST.replace("storeRoot", "# "), "storeRoot is missing"),
        (HOST.replace("controllerAddr", "# "), "controllerAddr is missing"),
        (HOST.replace("10811", "port"), "hostAddress="),
        (HOST + 'nodePorts = "10911"', "expected FIRST-LAST"),
        (HOST + 'nodePorts = "10912-10911"', "expected FIRST-LAST"),
        (HOST + 'nodePorts = "1-65536"', "expected FIRST-LAST"),
        (HOST + f'rack = "{"r" * 129}"', "expected at most 128 characters"),
        (HOST + '[defaults]\nstore = "/x"', "store is no setting here"),
        (HOST + '[defaults]\ncredentialsFile = "/x"', "is a setting of the host"),
        (HOST + 'haUnproven = "10.0.0.0/8"', "haUnproven is no setting here"),
        (HOST.replace("10811", "10912") + NODE, "b and the host have 10.0.0.4:10912"),
    ],
)
def test_what_a_host_cannot_be_is_refused(text: str, error: str) -> None:
    """
    One line, with the setting.
    """
    with pytest.raises(InvalidError, match=error) as caught:
        host_of_toml(text, "f")
    assert "\n" not in str(caught.value)
