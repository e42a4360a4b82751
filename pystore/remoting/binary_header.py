"""
Headers in RocketMQ's binary format. Pure.

The format has no empty texts: an empty remark, key or value counts as missing.

Source: formats 3.3; docs/remoting.md.
"""

from __future__ import annotations

import struct

from pystore.errors import InvalidError, RemoteViolation
from pystore.remoting.codes import Language, Serialisation
from pystore.remoting.command import RemotingCommand

__all__ = ["decode_binary_header", "encode_binary_header"]

_FIXED = struct.Struct(">hbhiii")
_KEY_SIZE = struct.Struct(">h")
_SIZE = struct.Struct(">i")
_LANGUAGES = {language.value: language for language in Language}


def encode_binary_header(command: RemotingCommand) -> bytes:
    """
    Returns the header of a command.

    Raises:
        InvalidError: a code or version is outside 16 bits, a key is longer than 32,767
            bytes, or a text is not Unicode.
    """
    try:
        remark = (command.remark or "").encode()
        pairs = b"".join(
            _KEY_SIZE.pack(len(key)) + key + _SIZE.pack(len(value)) + value
            for key, value in (
                (name.encode(), text.encode())
                for name, text in command.ext_fields.items()
            )
            if key and value
        )
        fixed = _FIXED.pack(
            command.code,
            command.language,
            command.version,
            command.opaque,
            command.flag,
            len(remark),
        )
    except UnicodeEncodeError as error:
        # Half of a surrogate pair, which only a program makes.
        raise InvalidError("text of the command is not Unicode") from error
    except struct.error as error:
        # A number is outside the range of its field.
        raise InvalidError(
            f"code {command.code}, version {command.version} or a key does not fit a "
            "ROCKETMQ header: send it as JSON"
        ) from error
    return fixed + remark + _SIZE.pack(len(pairs)) + pairs


def decode_binary_header(header: bytes, body: bytes) -> RemotingCommand:
    """
    Returns the command of a header and its body.

    Raises:
        RemoteViolation: a length does not fit the header, or a text is not UTF-8.
    """
    if len(header) < _FIXED.size + _SIZE.size:
        raise RemoteViolation(f"a ROCKETMQ header of {len(header)} bytes")
    code, language, version, opaque, flag, size = _FIXED.unpack_from(header)
    remark, at = _text(header, _FIXED.size, size, "remark")
    pairs_size, at = _length(header, at, _SIZE)
    if pairs_size < 0 or at + pairs_size != len(header):
        raise RemoteViolation(
            f"a ROCKETMQ header of {len(header)} bytes with {pairs_size} bytes of "
            f"fields at {at}"
        )
    return RemotingCommand(
        code=code,
        opaque=opaque,
        flag=flag,
        ext_fields=_pairs(header, at),
        body=body,
        remark=remark or None,
        language=_LANGUAGES.get(language, Language.OTHER),
        version=version,
        serialisation=Serialisation.ROCKETMQ,
    )


def _pairs(header: bytes, at: int) -> dict[str, str]:
    fields = {}
    while at < len(header):
        size, at = _length(header, at, _KEY_SIZE)
        key, at = _text(header, at, size, "key")
        size, at = _length(header, at, _SIZE)
        value, at = _text(header, at, size, "value")
        if key and value:
            fields[key] = value
    return fields


def _length(header: bytes, at: int, form: struct.Struct) -> tuple[int, int]:
    if at + form.size > len(header):
        raise RemoteViolation(f"a ROCKETMQ header ends in a length, at byte {at}")
    return int(form.unpack_from(header, at)[0]), at + form.size


def _text(header: bytes, at: int, size: int, name: str) -> tuple[str, int]:
    if not 0 <= size <= len(header) - at:
        raise RemoteViolation(
            f"a {name} of {size} bytes at byte {at} of a ROCKETMQ header of "
            f"{len(header)}"
        )
    try:
        return header[at : at + size].decode(), at + size
    except UnicodeDecodeError as error:
        # Java would put a replacement character there, and act on a wrong name.
        raise RemoteViolation(
            f"the {name} at byte {at} of a ROCKETMQ header is not UTF-8"
        ) from error
