"""
The description of hosts as bytes.
"""

from __future__ import annotations

import json

import pytest

from pystore.controller.protocol.host_descriptions import (
    HostDescription,
    HostedReplica,
    decode_hosts,
    encode_hosts,
)
from pystore.errors import RemoteViolation

ONE = HostDescription(
    "10.0.0.4:10811",
    "r\u00e4ck 1",
    1000,
    249,
    "10.0.0.4:10812",
    (
        HostedReplica("c", "a", 3, "10.0.0.4:10911", "master"),
        HostedReplica("c", "b", 0, "10.0.0.4:10913", "starting"),
    ),
    is_alive=False,
    since_ms=17,
)


def test_what_is_told_of_hosts_is_read_as_it_was() -> None:
    """
    All fields, and in ASCII.
    """
    hosts = (ONE, HostDescription("h:1"))
    body = encode_hosts(hosts)
    assert body.isascii()
    assert hosts == decode_hosts(body)
    assert () == decode_hosts(encode_hosts([]))


def test_a_host_says_how_full_it_is_and_what_it_carries() -> None:
    """
    Rounded up, so that a level is never passed unseen.
    """
    assert 76 == ONE.used_percent
    assert -1 == HostDescription("h:1").used_percent
    assert ONE.carries("c", "b")
    assert not ONE.carries("d", "b")


@pytest.mark.parametrize(
    "change",
    [
        {"address": "nowhere"},
        {"address": 7},
        {"rack": "r" * 301},
        {"freeBytes": 1001},
        {"totalBytes": -1},
        {"totalBytes": 1 << 64},
        {"freeBytes": True},
        {"alive": 1},
        {"replicas": None},
        {"replicas": [7]},
        {"replicas": [{"clusterName": "c"}]},
    ],
)
def test_what_is_no_description_is_refused(change: dict[str, object]) -> None:
    """
    A peer of another kind, or one with a defect.
    """
    row = json.loads(encode_hosts([ONE]))["hosts"][0]
    with pytest.raises(RemoteViolation):
        decode_hosts(json.dumps({"hosts": [row | change]}).encode())


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"hosts": {}}', b"\xff"])
def test_another_body_is_refused(body: bytes) -> None:
    """
    Such as that of another request.
    """
    with pytest.raises(RemoteViolation):
        decode_hosts(body)
