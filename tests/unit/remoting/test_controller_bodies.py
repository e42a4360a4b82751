"""
Bodies of elections and SyncStateSets, as RocketMQ's classes wrote them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from lib.oracle.golden_remoting import FRAMES

from pystore.errors import RemoteViolation
from pystore.remoting.controller_bodies import (
    BrokerMemberGroup,
    ElectMasterBody,
    SyncStateSet,
    decode_broker_names,
    decode_member_group,
    encode_broker_names,
    encode_member_group,
)
from pystore.remoting.json_body import parse_body

SETS = {
    (1001, "request"),
    (1001, "response"),
    (1003, "response"),
    (1004, "response"),
    (1008, "request"),
}


def bodies(*kinds: tuple[int, str]) -> Iterator[bytes]:
    """
    Yields the recorded bodies of these commands.
    """
    for line in FRAMES:
        if (line["command"], line["kind"]) in kinds and line["body"] is not None:
            yield line["body"].encode()


def test_every_recorded_set_is_read_and_written_again() -> None:
    """
    To the byte, when members are in order.
    """
    found = list(bodies(*SETS))

    assert 70 == len(found)
    for body in found:
        assert body == SyncStateSet.decode(body).encode()


def test_every_recorded_election_is_read_and_written_again() -> None:
    """
    With quotes around its ids, which Java reads as well.
    """
    found = list(bodies((1002, "response")))
    for body in found:
        said = ElectMasterBody.decode(body)
        assert parse_body(body) == json.loads(said.encode())

    assert 14 == len(found)
    assert {False, True} == {ElectMasterBody.decode(b).group is None for b in found}


def test_every_recorded_member_group_is_read_and_written_again() -> None:
    """
    Also that of an unknown set.
    """
    for body in bodies((901, "response")):
        group = decode_member_group(body)
        assert group is not None
        assert parse_body(body) == json.loads(encode_member_group(group))

    assert decode_member_group(encode_member_group(None)) is None


def test_every_recorded_request_names_its_sets() -> None:
    """
    1006 asks for several at once.
    """
    for body in bodies((1006, "request")):
        assert body == encode_broker_names(decode_broker_names(body))


def test_a_group_is_what_was_observed() -> None:
    """
    Formats 4.14.
    """
    body = (
        b'{"brokerMemberGroup":{"brokerAddrs":{1:"127.0.0.1:10911"},'
        b'"brokerName":"broker-a","cluster":"c"},"syncStateSet":[1]}'
    )
    group = BrokerMemberGroup("c", "broker-a", {1: "127.0.0.1:10911"})

    assert ElectMasterBody(frozenset({1}), group) == ElectMasterBody.decode(body)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"[]", "whose SyncStateSet is not an object"),
        (b'{"syncStateSetEpoch":1}', "whose syncStateSet is not a list"),
        (b'{"syncStateSet":["1"],"syncStateSetEpoch":1}', "is not all numbers"),
        (b'{"syncStateSet":[true],"syncStateSetEpoch":1}', "is not all numbers"),
        (b'{"syncStateSet":[]}', "whose syncStateSetEpoch is missing"),
        (b'{"syncStateSet":[],"syncStateSetEpoch":"1"}', "Epoch is not of type int"),
    ],
)
def test_a_malformed_set_is_one_clear_error(body: bytes, why: str) -> None:
    """
    Java would go on with an empty one.
    """
    with pytest.raises(RemoteViolation, match=why):
        SyncStateSet.decode(body)


def test_an_id_that_is_no_number_is_refused() -> None:
    """
    So is a list of names that holds something else.
    """
    body = (
        b'{"brokerMemberGroup":{"brokerAddrs":{"x":"a"},"brokerName":"b","cluster":""}}'
    )

    with pytest.raises(RemoteViolation, match="brokerAddrs has 'x'"):
        decode_member_group(body)
    with pytest.raises(RemoteViolation, match="names of 1006 are not all text"):
        decode_broker_names(b"[1]")
