"""
The configuration of a broker node.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystore.broker.config import NodeConfig, ha_address_of
from pystore.errors import InvalidError


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"controllers": ()}, "needs the address of a controller"),
        ({"address": "nowhere"}, "no HOST:PORT"),
        ({"name_servers": ("a:0",)}, "a port is within"),
        ({"address": "h:65535"}, "'h:65536': a port is within"),
    ],
)
def test_a_configuration_that_names_no_address_is_refused(
    tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    """
    With the reason.
    """
    valid: dict[str, object] = {
        "cluster": "c",
        "broker_name": "b",
        "address": "127.0.0.1:10911",
        "store": tmp_path,
        "controllers": ("127.0.0.1:9878",),
    }
    with pytest.raises(InvalidError, match=reason):
        NodeConfig(**(valid | changes))  # type: ignore[arg-type]


def test_slaves_connect_to_the_port_above() -> None:
    """
    As with RocketMQ's brokers; an IPv6 host keeps its brackets.
    """
    assert "h:10912" == ha_address_of("h:10911")
    assert "[::1]:10912" == ha_address_of("[::1]:10911")
