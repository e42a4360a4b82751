"""
States as bytes: encoding, decoding and refusals.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from lib.controller.broker_set_driver import Brokers, start

from pystore.controller.model.codec import VERSION, decode, encode
from pystore.controller.model.commands import Clean, NoteRefusal, StepDown
from pystore.controller.model.invariants import violations
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.replica import LogStanding, RegisteredBroker, Tombstone
from pystore.controller.model.state import LossRange, NotedRefusal, SetState
from pystore.errors import FormatError
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import AgreedSet, Incarnation, Member

numbers = st.integers(0, 2**63 - 1)
texts = st.text(max_size=9)
starts = st.none() | st.builds(
    Incarnation, st.integers(1, 2**40), st.binary(min_size=16, max_size=16)
)
positions = st.builds(LogEnd, st.integers(-1, 2**40), st.integers(-1, 2**62))


@st.composite
def states(draw: st.DrawFn) -> SetState:
    """
    Valid states, with every field set in some of them.
    """
    replicas = []
    for broker_id in sorted(draw(st.sets(st.integers(1, 9), max_size=4))):
        incarnation = draw(starts)
        replicas.append(
            RegisteredBroker(
                broker_id,
                draw(texts),
                draw(texts),
                incarnation,
                incarnation.counter if incarnation else 0,
                draw(texts),
                draw(st.sampled_from(LogStanding)),
                draw(positions),
                draw(positions),
                priority=draw(st.none() | numbers),
                ha_address=draw(texts),
            )
        )
    members = frozenset(one.member for one in replicas[::2])
    is_founded = draw(st.booleans()) or bool(replicas)
    return SetState(
        draw(texts),
        draw(texts),
        draw(numbers),
        next_id=draw(st.integers(20, 2**62)),
        replicas=tuple(replicas),
        tombstones=(Tombstone(11, draw(texts), 3, draw(positions)),),
        is_founded=is_founded,
        master=min(members, key=lambda one: one.broker_id, default=None),
        epoch=draw(st.integers(1, 2**62)),
        agreed=AgreedSet(
            members, draw(numbers), frozenset(one.member for one in replicas[1::2])
        ),
        resigned=draw(st.none() | st.builds(Member, numbers, starts)),
        unreleased=frozenset({Member(12, draw(starts))}),
        preferred_id=draw(
            st.none() | st.sampled_from([one.broker_id for one in replicas])
        )
        if replicas
        else None,
        is_automatic=draw(st.booleans()),
        losses=(LossRange(1, 2, draw(st.integers(3, 2**62)), "power"),),
        refusal=draw(
            st.none()
            | st.builds(NotedRefusal, st.sampled_from(ResponseCode), texts, numbers)
        ),
        copies=draw(st.integers(0, 64)),
    )


def _forged(plain: object) -> bytes:
    """
    Returns a record with a valid checksum for any content.
    """
    body = json.dumps(plain).encode()
    checksum = xxhash.xxh3_64_hexdigest(body).encode()
    return b"pystore-set %d %s %s" % (VERSION, checksum, body)


@given(states())
@settings(max_examples=40)
def test_a_state_survives_encoding_and_decoding(state: SetState) -> None:
    """RMQ-T11: values, not only keys; and the same state is the same bytes."""
    assert () == violations(state)
    assert state == decode(encode(state), "key")
    assert encode(state) == encode(decode(encode(state), "key"))


@given(states(), st.data())
@settings(max_examples=40)
def test_damaged_bytes_are_one_clear_error(
    state: SetState, data: st.DataObject
) -> None:
    """For each changed byte and each truncation."""
    raw = bytearray(encode(state))
    at = data.draw(st.integers(0, len(raw) - 1))
    cut = bytes(raw[:at])
    raw[at] ^= data.draw(st.integers(1, 255))

    for damaged in (bytes(raw), cut):
        with pytest.raises(FormatError, match=r"^record sets/c/b: .+$"):
            decode(damaged, "sets/c/b")


@given(st.binary(max_size=60))
def test_foreign_bytes_are_not_a_record(raw: bytes) -> None:
    """Nothing but the one error is raised for any bytes."""
    with pytest.raises(FormatError):
        decode(raw, "key")


def test_a_record_of_version_1_has_no_address_for_slaves_and_no_begin() -> None:
    """RMQ-R266: it is read; the next commit writes the present version."""
    brokers = Brokers()
    brokers.join(1, start(1))
    magic, _, _, body = encode(brokers.state).split(b" ", 3)
    plain = json.loads(body)
    assert 0 == plain.pop("copies")
    for one in plain["replicas"]:
        assert "" == one.pop("ha_address")
        assert {"offset": -1, "is_filling": False} == one.pop("begin")
        assert one.pop("was_listed") is False
        assert one.pop("original") is one.pop("strange") is None
    body = json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()
    checksum = xxhash.xxh3_64_hexdigest(body).encode()

    # It does not tell who was in the SyncStateSet, so every broker counts as one.
    (replica,) = brokers.state.replicas
    expected = replace(brokers.state, replicas=(replace(replica, was_listed=True),))
    assert expected == decode(b" ".join((magic, b"1", checksum, body)), "key")
    with pytest.raises(FormatError, match="has fields"):
        decode(b" ".join((magic, b"2", checksum, body)), "key")


def test_a_later_version_is_left_alone() -> None:
    """RMQ-R266: it is neither guessed at nor overwritten."""
    now, later = b" %d " % VERSION, b" %d " % (VERSION + 1)
    raw = encode(SetState("c", "b")).replace(now, later, 1)

    with pytest.raises(FormatError, match="later pystore; update"):
        decode(raw, "key")


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("epoch", "1"),
        ("epoch", True),
        ("epoch", None),
        ("epoch", -1),
        ("master", {"broker_id": 1}),
        ("master", {"broker_id": 1, "incarnation": [1]}),
        ("master", {"broker_id": 1, "incarnation": {"counter": 1, "bits": "00"}}),
        ("master", {"broker_id": 7, "incarnation": None}),
        ("refusal", {"code": 2999, "reason": "", "broker_id": 0}),
        ("unreleased", [{"broker_id": 1, "incarnation": None}] * 2),
        ("replicas", {}),
    ],
)
def test_a_field_of_another_type_is_refused(field: str, wrong: object) -> None:
    """Also with a valid checksum."""
    plain = json.loads(encode(SetState("c", "b")).split(b" ", 3)[3])
    assert decode(_forged(plain), "key") == SetState("c", "b")

    with pytest.raises(FormatError, match="record key: "):
        decode(_forged(plain | {field: wrong}), "key")
    for strange in (plain | {"another": 1}, [plain], 7, None):
        with pytest.raises(FormatError, match="invalid value"):
            decode(_forged(strange), "key")


def test_a_set_with_a_history_survives_encoding_and_decoding() -> None:
    """Elections, losses, tombstones and refusals."""
    brokers = Brokers()
    a, b = brokers.join(1, start(1)), brokers.join(2, start(1))
    brokers.elect(1)
    brokers.admit(b)
    brokers.ask(StepDown(a, 1))
    brokers.elect()
    brokers.ask(Clean(frozenset({1}), with_living=True))
    brokers.ask(
        NoteRefusal(NotedRefusal(ResponseCode.CONTROLLER_INVALID_MASTER, "no", 1))
    )

    assert brokers.state == decode(encode(brokers.state), "key")
    assert brokers.state != decode(encode(replace(brokers.state, epoch=9)), "key")
