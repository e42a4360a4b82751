"""
The description of all sets as bytes.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lib.controller.broker_set_driver import incarnation

from pystore.controller.model.log_end import LogBegin, LogEnd
from pystore.controller.model.replica import LogStanding
from pystore.controller.protocol.set_descriptions import (
    BrokerDescription,
    SetDescription,
    decode_sets,
    encode_sets,
)
from pystore.errors import RemoteViolation

# Also halves of surrogate pairs, which a peer's JSON may contain.
texts = st.text(st.characters(), max_size=9)
numbers = st.integers(0, 2**62)
offsets = st.integers(-1, 2**62)
brokers = st.builds(
    BrokerDescription,
    st.integers(1, 2**40),
    texts,
    st.booleans(),
    numbers,
    st.none() | st.just(incarnation(3).text),
    st.builds(LogBegin, offsets, st.booleans()),
    st.builds(LogEnd, offsets, offsets),
    st.sampled_from(LogStanding),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(-1, 100),
    texts,
)
sets = st.builds(
    SetDescription,
    texts,
    texts,
    numbers,
    st.none() | numbers,
    numbers,
    numbers,
    st.integers(0, 64),
    st.integers(0, 64),
    st.lists(brokers, max_size=3).map(tuple),
)
ONE = SetDescription("c", "b", brokers=(BrokerDescription(1, "10.0.0.1:10911"),))


@given(st.lists(sets, max_size=3), st.lists(st.tuples(texts, texts), max_size=2))
@settings(max_examples=60)
def test_what_is_described_survives_encoding_and_decoding(
    some: list[SetDescription], damaged: list[tuple[str, str]]
) -> None:
    """Every value of every field."""
    assert (tuple(some), tuple(damaged)) == decode_sets(encode_sets(some, damaged))


def test_what_has_its_default_takes_no_bytes() -> None:
    """A controller describes thousands of sets."""
    (row,) = json.loads(encode_sets([ONE], []))["sets"]

    assert {"copies", "masterBrokerId"}.isdisjoint(row)
    (broker,) = row["brokers"]
    assert {
        "alive", "beginOffset", "brokerAddress", "brokerId", "endOffset", "epoch",
        "sinceMillis", "standing",
    } == broker.keys()  # fmt: skip


def test_a_broker_stands_on_the_host_of_its_address() -> None:
    """One of RocketMQ's may have registered any text, a rebuilt one has none."""
    hosts = {"10.0.0.1:10911": "10.0.0.1", "[::1]:7": "::1", "": "", "x": ""}
    for address, host in hosts.items():
        assert host == BrokerDescription(1, address).host


def _changed(**changes: object) -> dict[str, Any]:
    """
    The body with other values of the broker.
    """
    body: dict[str, Any] = json.loads(encode_sets([ONE], []))
    body["sets"][0]["brokers"][0].update(changes)
    return body


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"sets":[]}',
        b'{"sets":[],"damaged":[["c"]]}',
        b'{"sets":[],"damaged":[["c",1]]}',
        b'{"sets":[1],"damaged":[]}',
        b'{"sets":[{}],"damaged":[]}',
        b'{"sets":' + b"[" * 100_000,
        json.dumps(_changed(brokerId="1")).encode(),
        json.dumps(_changed(alive=1)).encode(),
        json.dumps(_changed(sinceMillis=True)).encode(),
        json.dumps(_changed(standing="whole")).encode(),
        json.dumps(_changed(diskProblem=None)).encode(),
    ],
)
def test_another_body_is_one_clear_error(body: bytes) -> None:
    """The peer is none of ours, or has a defect."""
    with pytest.raises(RemoteViolation, match="no description of sets"):
        decode_sets(body)
