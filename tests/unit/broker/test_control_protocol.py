"""
Frames and limits of the control socket.
"""

from __future__ import annotations

import json

import pytest

from pystore.broker.control_protocol import (
    HEAD_BYTES,
    ControlCode,
    ControlError,
    ControlLimits,
    content_size,
    encode_answer,
    encode_frame,
    parse_content,
    refusal,
)
from pystore.errors import InvalidError, RemoteViolation


def test_a_frame_is_its_size_and_its_content() -> None:
    """
    The size is a 32-bit number, big-endian.
    """
    frame = encode_frame(b'{"a": 1}')

    assert b'\x00\x00\x00\x08{"a": 1}' == frame
    assert 8 == content_size(frame[:HEAD_BYTES], 8)
    assert {"a": 1} == parse_content(frame[HEAD_BYTES:])


@pytest.mark.parametrize("size", [0, 9, 0xFFFFFFFF])
def test_a_size_beyond_the_limit_is_refused(size: int) -> None:
    """
    Nothing is read for it.
    """
    with pytest.raises(RemoteViolation, match=f"a frame of {size} bytes: expected 1"):
        content_size(size.to_bytes(4), 8)


@pytest.mark.parametrize(
    "content", [b"[]", b"1", b"{", b"\xff", b'{"a": NaN}', b"[" * 9999]
)
def test_a_content_that_is_no_object_is_refused(content: bytes) -> None:
    """
    However it is wrong.
    """
    with pytest.raises(RemoteViolation):
        parse_content(content)


def test_an_answer_begins_with_its_version() -> None:
    """
    Text that is not Unicode is readable.
    """
    assert b'{"schemaVersion": 1, "path": "\\udcff"}' == encode_answer(
        {"path": "\udcff"}
    )


def test_a_refusal_is_an_answer_with_a_code_and_one_line() -> None:
    """
    Beside what is known of the matter.
    """
    error = ControlError(ControlCode.NOT_MASTER, "two\nlines", {"masterId": 2})

    assert {
        "schemaVersion": 1,
        "masterId": 2,
        "error": {"code": "not-master", "text": "two lines"},
    } == json.loads(refusal(error))


@pytest.mark.parametrize(
    ("name", "value"),
    [("connections_max", 0), ("frame_timeout_ms", 0), ("bytes_max", 9)],
)
def test_limits_without_a_meaning_are_refused(name: str, value: int) -> None:
    """
    A frame must be readable.
    """
    with pytest.raises(InvalidError, match=f"{name} is {value}"):
        ControlLimits(**{name: value})
