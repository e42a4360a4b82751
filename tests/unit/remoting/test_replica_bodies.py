"""
The bodies of answers to administrators, as RocketMQ's classes wrote them.
"""

from __future__ import annotations

import pytest
from lib.oracle.golden_remoting import FRAMES

from pystore.errors import RemoteViolation
from pystore.remoting.replica_bodies import (
    BrokerReplicas,
    EpochCache,
    decode_replicas,
    encode_replicas,
)


def bodies(code: int) -> list[bytes]:
    """
    Returns the recorded answers to this request.
    """
    return [
        line["body"].encode()
        for line in FRAMES
        if line["command"] == code and line["kind"] == "response" and line["body"]
    ]


def test_every_recorded_table_of_replicas_is_written_to_the_same_bytes() -> None:
    """
    Sets without a master among them.
    """
    tables = {body: decode_replicas(body) for body in bodies(1006)}

    assert tables
    for body, table in tables.items():
        assert body.decode() == encode_replicas(table).decode()
    assert any(one.in_sync for table in tables.values() for one in table.values())


def test_every_recorded_epoch_cache_is_written_to_the_same_bytes() -> None:
    """
    The last epoch ends at 2^63-1.
    """
    found = bodies(1007)

    assert found
    for body in found:
        assert body == EpochCache.decode(body).encode()


def test_a_set_without_master_names_none() -> None:
    """
    Nulls are left out.
    """
    table = {"a": BrokerReplicas(3, 7)}
    body = encode_replicas(table)

    assert b"masterBrokerId" not in body
    assert table == decode_replicas(body)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{}", "whose replicasInfoTable is not an object"),
        (b'{"replicasInfoTable":{"a":1}}', "whose a is not an object"),
        (b'{"replicasInfoTable":{"a":{}}}', "whose masterEpoch is missing"),
    ],
)
def test_a_malformed_table_is_one_clear_error(body: bytes, why: str) -> None:
    """
    It names what is wrong.
    """
    with pytest.raises(RemoteViolation, match=why):
        decode_replicas(body)
