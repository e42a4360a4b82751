"""
Headers in RocketMQ's binary form.
"""

from __future__ import annotations

import pytest

from pystore.errors import InvalidError, RemoteViolation
from pystore.remoting.binary_header import decode_binary_header, encode_binary_header
from pystore.remoting.codes import Language, Serialisation
from pystore.remoting.command import RemotingCommand


def command(code: int, opaque: int = 0, **fields: str) -> RemotingCommand:
    """
    A command of a Java peer in binary form.
    """
    return RemotingCommand(
        code,
        opaque,
        ext_fields=fields,
        language=Language.JAVA,
        serialisation=Serialisation.ROCKETMQ,
    )


OBSERVED = [
    (command(1005, 8), "03ed 00 0000 00000008 00000000 00000000 00000000"),
    (
        command(1004, 9, brokerName="broker-a"),
        "03ec 00 0000 00000009 00000000 00000000 00000018"
        "000a 62726f6b65724e616d65 00000008 62726f6b65722d61",
    ),
]


@pytest.mark.parametrize(("said", "digits"), OBSERVED)
def test_a_header_is_the_bytes_that_were_observed(
    said: RemotingCommand, digits: str
) -> None:
    """
    Formats 3.7, there and back, and never from one byte more or less.
    """
    header = bytes.fromhex(digits)

    assert header.hex() == encode_binary_header(said).hex()
    assert said == decode_binary_header(header, b"")
    for size in range(len(header)):
        with pytest.raises(RemoteViolation):
            decode_binary_header(header[:size], b"")
    with pytest.raises(RemoteViolation, match="bytes of fields at 21"):
        decode_binary_header(header + b"\0", b"")


def test_empty_text_is_none() -> None:
    """
    A length of zero is how null is written, so neither is sent.
    """
    sent = RemotingCommand(
        1,
        ext_fields={"a": "", "": "b", "c": "d"},
        remark="",
        language=Language.OTHER,
        serialisation=Serialisation.ROCKETMQ,
    )
    read = decode_binary_header(encode_binary_header(sent), b"")

    assert {"c": "d"} == read.ext_fields
    assert read.remark is None


def test_an_unknown_language_is_other() -> None:
    """
    It may be one of a later version.
    """
    header = bytearray(encode_binary_header(command(1)))
    header[2] = 99

    assert Language.OTHER is decode_binary_header(bytes(header), b"").language


@pytest.mark.parametrize(
    ("digits", "why"),
    [
        ("", "a ROCKETMQ header of 0 bytes"),
        (f"{'00' * 13} ffffffff {'00' * 4}", "a remark of -1 bytes at byte 17"),
        (f"{'00' * 13} 7fffffff {'00' * 4}", "a remark of 2147483647 bytes"),
        (f"{'00' * 13} 00000001 ff {'00' * 4}", "the remark at byte 17 .* not UTF-8"),
        (f"{'00' * 17} ffffffff", "with -1 bytes of fields at 21"),
        (f"{'00' * 17} 00000001 00", "ends in a length, at byte 21"),
        (f"{'00' * 17} 00000002 ffff", "a key of -1 bytes at byte 23"),
        (f"{'00' * 17} 00000005 000161 0000", "ends in a length, at byte 24"),
        (f"{'00' * 17} 00000007 000161 00000002", "a value of 2 bytes at byte 28"),
        (f"{'00' * 17} 00000008 000161 00000001 ff", "value at byte 28 .*not UTF-8"),
    ],
)
def test_a_malformed_header_is_one_clear_error(digits: str, why: str) -> None:
    """
    No length leads out of the header, no text is guessed.
    """
    with pytest.raises(RemoteViolation, match=why):
        decode_binary_header(bytes.fromhex(digits), b"")


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (command(200050), "code 200050, .*: send it as JSON"),
        (RemotingCommand(1, ext_fields={"k" * 40_000: "v"}), "a key does not fit"),
        (command(1, a="\ud800"), "not Unicode"),
    ],
)
def test_a_value_outside_the_format_is_not_sent(
    sent: RemotingCommand, why: str
) -> None:
    """
    Java sends 200050 as 3442, which is another request.
    """
    with pytest.raises(InvalidError, match=why):
        encode_binary_header(sent)
