"""
A message is its bytes, and refuses what no log could hold.
"""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystore.errors import InvalidError
from pystore.message.message import BODY_SIZE_MAX, Message, form_of

NAMES = st.text(
    st.characters(exclude_characters="\x00\x01\x02/", exclude_categories=["Cs"]),
    min_size=1,
    max_size=20,
)
I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
FIELDS = st.fixed_dictionaries(
    {
        "topic": NAMES.filter(lambda topic: topic not in (".", "..")),
        "body": st.binary(max_size=300),
        "queue_id": st.integers(0, 2**31 - 1),
        "keys": st.none() | NAMES,
        "tags": st.none() | NAMES,
        "flag": I32,
        "sys_flag": st.integers(0, 2**32 - 1),
        "reconsume_times": I32,
        "born_ms": I64,
        "prepared_offset": I64,
        "born_host": st.sampled_from([None, "1.2.3.4:5", "[1:2:3:4:5:6:7:8]:9"]),
    }
)


@given(FIELDS, st.dictionaries(NAMES.map(lambda name: "user" + name), NAMES))
def test_every_field_is_read_back(
    fields: dict[str, Any], properties: dict[str, str]
) -> None:
    """
    The fields are read back from the bytes, in any combination.
    """
    message = Message(**fields, properties=properties)

    assert fields == {name: getattr(message, name) for name in fields}
    given_names = {"KEYS": fields["keys"], "TAGS": fields["tags"]}
    whole = properties | {name: text for name, text in given_names.items() if text}
    assert whole == message.properties


@given(FIELDS)
def test_a_message_is_its_form(fields: dict[str, Any]) -> None:
    """
    Equality, hash, pickling and rebuilding use the bytes alone.
    """
    message = Message(**fields)

    for other in (
        Message(**fields),
        Message.from_form(message.form),
        pickle.loads(pickle.dumps(message)),
    ):
        assert message == other
        assert hash(message) == hash(other)
    assert message != Message(**(fields | {"body": fields["body"] + b"!"}))


@given(FIELDS, st.data())
def test_bytes_that_are_no_form_are_refused(
    fields: dict[str, Any], data: st.DataObject
) -> None:
    """
    A form that is cut short or too long never becomes a message.
    """
    form = Message(**fields).form
    cut = data.draw(st.integers(0, len(form) - 1))

    for broken in (form[:cut], form + b"\0"):
        with pytest.raises(InvalidError, match="no message form"):
            Message.from_form(broken)


def test_the_client_form_is_rocketmqs_batch_entry() -> None:
    """
    Formats 1.7: total size, two zeros, flag, body size, body, properties.
    """
    message = Message("Topic", b"body", tags="A", flag=7)

    assert (
        bytes.fromhex(
            "00000021 00000000 00000000 00000007 00000004 626f6479 0007 54414753014102"
        )
        == message.client_form
    )


def test_several_keys_are_joined() -> None:
    """
    KEYS holds them with one space between.
    """
    assert "a b" == Message("T", b"", keys=["a", "b"]).keys
    assert Message("T", b"").keys is None


def test_any_buffer_is_a_body() -> None:
    """
    Other buffers are copied, so that the message cannot change.
    """
    body = bytearray(b"body")
    message = Message("T", body)
    body[0] = 0

    assert b"body" == message.body
    assert b"body" == Message("T", memoryview(b"body")).body


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"body": bytes(BODY_SIZE_MAX + 1)}, "body of 4194305 bytes is too large"),
        ({"body": b"12345", "body_size_max": 4}, "body of 5 bytes is too large: at m"),
        ({"body": "text"}, "body is str, it must be bytes: encode it first"),
        ({"body": 5}, "body is int, it must be bytes"),
        ({"body": None}, "body must be bytes: "),
        ({"topic": "T" * 128}, "topic of 128 bytes is too long"),
        ({"properties": {"a": "x" * 32767}}, "properties of 32770 bytes are too long"),
        ({"properties": {"a": "\x01"}}, "property 'a': the value holds '\\x01'"),
        ({"keys": "a\x02"}, "property 'KEYS': the value holds '\\x02'"),
        ({"tags": ""}, "property 'TAGS': the value is empty"),
        ({"keys": "a", "properties": {"KEYS": "b"}}, "keys are given twice"),
        ({"tags": "a", "properties": {"TAGS": "b"}}, "tags are given twice"),
        ({"queue_id": -1}, "queue_id -1 is not in 0..2147483647"),
        ({"born_host": "nowhere"}, "host 'nowhere' is not address:port"),
    ],
)
def test_a_message_that_no_log_could_hold_is_refused_in_one_line(
    fields: dict[str, Any], line: str
) -> None:
    """
    The error names the part, the problem and the limit.
    """
    with pytest.raises(InvalidError) as info:
        Message(**({"topic": "T", "body": b""} | fields))

    assert str(info.value).startswith(line)
    assert "\n" not in str(info.value)


def test_the_largest_body_fits() -> None:
    """
    The limit itself is allowed.
    """
    assert BODY_SIZE_MAX == len(Message("T", bytes(BODY_SIZE_MAX)).body)


def test_a_message_cannot_be_changed() -> None:
    """
    Neither a field nor the bytes can be set.
    """
    message = Message("T", b"")

    for name in ("form", "body", "other"):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(message, name, b"")
    with pytest.raises(AttributeError, match="immutable"):
        del message.form


def test_the_repr_of_a_message_has_its_fields_but_not_its_body() -> None:
    """
    A log line with a message in it stays a line.
    """
    shown = repr(Message("T", bytes(1000), tags="A", queue_id=3))

    assert "Message('T', <1000 bytes>, queue_id=3, properties={'TAGS': 'A'})" == shown


def test_many_messages_are_their_forms_back_to_back() -> None:
    """The form of one message is its own; other objects are refused."""
    one, two = Message("t", b"1"), Message("t", b"2")

    assert one.form == form_of(one)
    assert one.form + two.form == form_of(iter([one, two]))
    for wrong in (b"bytes", [one, b"bytes"], 7):
        with pytest.raises(InvalidError, match="made of Messages"):
            form_of(wrong)  # type: ignore[arg-type]
