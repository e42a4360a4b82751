"""
Headers of all requests, as RocketMQ's classes encoded and decoded them.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import pytest
from lib.oracle.golden_remoting import FRAMES, decode_whole, raw
from lib.remoting.headers import HEADERS

from pystore.remoting.codes import RequestCode
from pystore.remoting.fields import (
    MissingField,
    decode_fields,
    encode_fields,
    wire_name,
)

WITH_HEADER = [line for line in FRAMES if line["headerClass"]]


def header_of(line: dict[str, Any]) -> Any:
    """
    Returns our class for the header of a recorded frame.
    """
    pair = HEADERS[RequestCode(line["command"])]
    return pair.response if line["kind"] == "response" else pair.request


def test_every_recorded_header_has_a_class_here() -> None:
    """
    And what has none with Java has none here.
    """
    for line in FRAMES:
        assert (header_of(line) is None) == (line["headerClass"] is None), line["case"]


def test_every_recorded_header_decodes_as_in_java_and_is_encoded_again() -> None:
    """
    What was sent is sent again; beside it only defaults, which Java left out.
    """
    written = 0
    for line in WITH_HEADER:
        command = decode_whole(raw(line))
        assert command is not None
        sent = command.ext_fields
        try:
            header = decode_fields(header_of(line), sent)
        except MissingField:
            # Java left out a null, or wrote it as empty text.
            continue
        again = encode_fields(header)
        assert sent.items() <= again.items()
        for field in fields(header):
            name, value = wire_name(field.name), getattr(header, field.name)
            assert value == (
                line["decodedHeader"][name] if name in sent else field.default
            )
        written += 1

    assert 277 == written
    assert 352 == len(WITH_HEADER)


def test_a_header_that_needs_nothing_may_have_nothing() -> None:
    """
    Every optional field has a type that the decoder supports.
    """
    kinds = {kind for pair in HEADERS.values() for kind in pair if kind}
    for kind in kinds:
        needed = [wire_name(one.name) for one in fields(kind) if one.default is MISSING]
        if needed:
            with pytest.raises(MissingField, match=f"{kind.__name__}: {needed[0]} is"):
                decode_fields(kind, {})
        else:
            assert kind() == decode_fields(kind, {})
