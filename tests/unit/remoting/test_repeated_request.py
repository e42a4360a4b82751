"""
The form of a request that is repeated with other numbers.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.access_fixture import bound

from pystore.errors import RemoteViolation
from pystore.remoting.binding import SEQUENCE, RequestBinding
from pystore.remoting.codes import CommandFlag, Serialisation
from pystore.remoting.command import RemotingCommand
from pystore.remoting.framing import CommandReader, encode_frame
from pystore.remoting.repeated_request import FORM_BYTES_MAX, RequestForm
from pystore.remoting.signature import (
    SIGNATURE,
    Credentials,
    is_signature,
    is_signed_by,
    signed,
)

NAMES = "maxOffset", "flushed"
FIELDS = {"brokerName": "b", "flushed": "20", "epoch": "7", "maxOffset": "3"}
REQUEST = RemotingCommand(904, 5, ext_fields=FIELDS)


def _form(request: RemotingCommand = REQUEST) -> RequestForm | None:
    return RequestForm.of(encode_frame(request), request, NAMES)


def _numbers(form: RequestForm, frame: bytes) -> list[int] | None:
    found = form.read(frame)
    return None if found is None else found.numbers


def _frame(opaque: int, end: int, flushed: int) -> bytes:
    fields = FIELDS | {"maxOffset": str(end), "flushed": str(flushed)}
    return encode_frame(replace(REQUEST, opaque=opaque, ext_fields=fields))


@given(
    opaque=st.integers(-(2**31), 2**31 - 1),
    end=st.integers(1 - 10**18, 10**18 - 1),
    flushed=st.integers(1 - 10**18, 10**18 - 1),
)
def test_other_numbers_of_any_length_are_read(
    opaque: int, end: int, flushed: int
) -> None:
    """In the order of the names, whatever their order in the frame."""
    form = _form()

    assert form is not None
    assert [opaque, end, flushed] == _numbers(form, _frame(opaque, end, flushed))


@given(
    at=st.integers(0, len(_frame(12, 30, 400)) - 1),
    removed=st.integers(0, 3),
    added=st.binary(max_size=3) | st.text(' "-,0:7\\', max_size=3).map(str.encode),
)
def test_bytes_that_fit_mean_what_a_decoder_reads(
    at: int, removed: int, added: bytes
) -> None:
    """Bytes that are changed anywhere either do not fit, or are the same request."""
    form = _form()
    assert form is not None
    frame = _frame(12, 30, 400)
    frame = frame[:at] + added + frame[at + removed :]

    numbers = _numbers(form, frame)

    if numbers is None:
        return
    reader = CommandReader()
    reader.feed(frame)
    command = reader.take()
    opaque, end, flushed = numbers
    assert command is not None
    fields = dict(command.ext_fields)
    assert [end, flushed] == [int(fields.pop(name)) for name in NAMES]
    expected = {name: FIELDS[name] for name in FIELDS if name not in NAMES}
    assert replace(REQUEST, opaque=opaque, ext_fields=expected) == replace(
        command, ext_fields=fields
    )
    assert 0 == reader.held


@pytest.mark.parametrize(
    "other",
    [
        _frame(0, 10**18, 20),
        _frame(5, 3, 20)[:-1],
        _frame(5, 3, 20) * 2,
        encode_frame(replace(REQUEST, code=905)),
        encode_frame(replace(REQUEST, body=b"b")),
        encode_frame(replace(REQUEST, flag=int(CommandFlag.ONE_WAY))),
        encode_frame(replace(REQUEST, ext_fields=FIELDS | {"epoch": "8"})),
        encode_frame(replace(REQUEST, ext_fields=FIELDS | {"maxOffset": "03"})),
        encode_frame(replace(REQUEST, serialisation=Serialisation.ROCKETMQ)),
        b"",
        b"\0",
    ],
)
def test_another_request_does_not_fit(other: bytes) -> None:
    """Nor a part of one, several, or a number that needs a closer look."""
    form = _form()

    assert form is not None
    assert form.read(other) is None


def test_an_opaque_number_beyond_32_bits_does_not_fit() -> None:
    """The decoder refuses it."""
    form = _form()
    assert form is not None
    frame = _frame(2**31 - 1, 3, 20)
    assert form.read(frame) is not None
    frame = frame.replace(b"2147483647", b"2147483648")

    assert form.read(frame) is None
    reader = CommandReader()
    reader.feed(frame)
    with pytest.raises(RemoteViolation):
        reader.take()


@pytest.mark.parametrize(
    "request_",
    [
        replace(REQUEST, ext_fields=FIELDS | {"maxOffset": "+1"}),
        replace(REQUEST, ext_fields=FIELDS | {"maxOffset": "٣"}),
        replace(REQUEST, ext_fields=FIELDS | {"maxOffset": ""}),
        replace(REQUEST, ext_fields=FIELDS | {"maxOffset": "9" * 19}),
        replace(REQUEST, ext_fields={"flushed": "20"}),
        replace(REQUEST, body=b"b"),
        replace(REQUEST, serialisation=Serialisation.ROCKETMQ),
        # Bytes that look like another place of a number.
        replace(REQUEST, ext_fields=FIELDS | {"brokerName": "maxOffset"}),
        replace(REQUEST, ext_fields=FIELDS | {"brokerName": '"maxOffset":"3"'}),
        replace(REQUEST, ext_fields=FIELDS | {"opaque": "5"}),
        replace(REQUEST, remark="opaque"),
        replace(REQUEST, remark="x" * FORM_BYTES_MAX),
    ],
)
def test_a_request_that_is_read_in_two_ways_has_no_form(
    request_: RemotingCommand,
) -> None:
    """Nor a long one, since each connection may keep one."""
    assert _form(request_) is None


def test_several_requests_in_one_read_have_no_form() -> None:
    """Nor one with the begin of the next."""
    frame = encode_frame(REQUEST)
    for more in (frame, b"\0", frame[:9]):
        assert RequestForm.of(frame + more, REQUEST, NAMES) is None
    assert RequestForm.of(frame[:-1], REQUEST, NAMES) is None


USER = Credentials("u", "a secret")


def _signed(binding: RequestBinding, opaque: int, end: int) -> bytes:
    fields = FIELDS | {"maxOffset": str(end), "na\u00efve": "\u00e9", "\U0001f600": "x"}
    request = replace(REQUEST, opaque=opaque, ext_fields=fields)
    return encode_frame(signed(bound(binding, request), USER))


def _decoded(frame: bytes) -> RemotingCommand | None:
    reader = CommandReader()
    reader.feed(frame)
    return reader.take()


def _signed_form(binding: RequestBinding) -> RequestForm:
    frame = _signed(binding, 1, 2)
    request = _decoded(frame)
    assert request is not None
    form = RequestForm.of(frame, request, NAMES)
    assert form is not None
    return form


@given(end=st.integers(1 - 10**18, 10**18 - 1))
def test_a_signature_of_other_numbers_is_read_with_what_it_covers(end: int) -> None:
    """And the number of the request on its connection."""
    binding = RequestBinding("challenge")
    form = _signed_form(binding)
    for sequence in (2, 3):
        found = form.read(_signed(binding, 7, end))
        assert found is not None
        assert ([7, end, 20], sequence, "u", 904) == (
            found.numbers,
            found.sequence,
            found.user,
            found.code,
        )
        assert is_signature(found.signature, found.content, "a secret")
        assert not is_signature(found.signature, found.content, "another")


@given(
    at=st.integers(0, len(_signed(RequestBinding("challenge"), 7, 30)) - 1),
    removed=st.integers(0, 3),
    added=st.binary(max_size=3) | st.text(' "-,0:7\\=', max_size=3).map(str.encode),
)
def test_bytes_that_fit_are_signed_as_a_decoder_finds(
    at: int, removed: int, added: bytes
) -> None:
    """Changed anywhere: no form verifies what a decoded request would not."""
    binding = RequestBinding("challenge")
    form = _signed_form(binding)
    frame = _signed(binding, 7, 30)
    frame = frame[:at] + added + frame[at + removed :]

    found = form.read(frame)

    if found is None:
        return
    command = _decoded(frame)
    assert command is not None
    verified = is_signature(found.signature, found.content, "a secret")
    assert verified == is_signed_by(command, "a secret")
    assert str(found.sequence) == command.ext_fields[SEQUENCE]


@pytest.mark.parametrize(
    "changes",
    [
        {SIGNATURE: "short"},
        {SIGNATURE: "=" * 28},
        {"_UNIQUE_KEY_QUERY": "x"},
        {SEQUENCE: "x"},
    ],
)
def test_a_signature_or_a_number_of_another_form_has_no_form(
    changes: dict[str, str],
) -> None:
    """The decoder and the gate judge it."""
    request = _decoded(_signed(RequestBinding("challenge"), 1, 2))
    assert request is not None
    other = replace(request, ext_fields={**request.ext_fields, **changes})
    assert RequestForm.of(encode_frame(other), other, NAMES) is None
