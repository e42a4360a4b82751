"""
Headers in JSON, RocketMQ's default. Pure.

The decoder accepts JSON of any writer; fastjson's deviations from JSON are refused. The
encoder writes what fastjson writes: sorted names, no white space, no null, and no
escapes except for control characters.

Source: formats 3.2; docs/remoting.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

from pystore.errors import InvalidError, RemoteViolation
from pystore.remoting.codes import Language
from pystore.remoting.command import RemotingCommand

__all__ = ["decode_json_header", "encode_json_header"]

_LANGUAGES = {language.name: language for language in Language}
_NAMES = {language: language.name for language in Language}
_I32_MIN, _I32_MAX = -(1 << 31), (1 << 31) - 1
_LITERALS = {True: "true", False: "false"}


def encode_json_header(command: RemotingCommand) -> bytes:
    """
    Returns the header of a command.

    Raises:
        InvalidError: a text is not Unicode.
    """
    ext_fields = remark = ""
    if command.ext_fields:
        pairs = ",".join(
            f"{_quoted(name)}:{_quoted(text)}"
            for name, text in command.ext_fields.items()
        )
        ext_fields = f'"extFields":{{{pairs}}},'
    if command.remark is not None:
        remark = f'"remark":{_quoted(command.remark)},'
    try:
        return (
            f'{{"code":{command.code:d},{ext_fields}"flag":{command.flag:d},'
            f'"language":"{_NAMES[command.language]}","opaque":{command.opaque:d},'
            f'{remark}"serializeTypeCurrentRPC":"JSON","version":{command.version:d}}}'
        ).encode()
    except UnicodeEncodeError as error:
        # Half of a surrogate pair, which only a program makes.
        raise InvalidError("text of the command is not Unicode") from error


def decode_json_header(header: bytes, body: bytes) -> RemotingCommand:
    """
    Returns the command of a header and its body.

    Raises:
        RemoteViolation: the header is not a JSON object, a field has another type, or
            code or opaque is missing.
    """
    fields = _parse(header)
    return RemotingCommand(
        _integer(fields, "code"),
        _integer(fields, "opaque"),
        _integer(fields, "flag", 0),
        _ext_fields(fields.get("extFields")),
        body,
        _text(fields, "remark"),
        _LANGUAGES.get(_text(fields, "language") or "JAVA", Language.OTHER),
        _integer(fields, "version", 0),
    )


def _parse(header: bytes) -> dict[str, Any]:
    try:
        # Fractions stay text: only extFields may contain one.
        text = header.decode()
        try:
            fields, end = _SCAN(text, 0)
        except StopIteration:
            # Not JSON, or white space in front.
            fields, end = None, -1
        if end != len(text):
            fields = _READER.decode(text)
        if b"\\u" in header:
            json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeError as error:
        # Invalid bytes, or the escape of half a surrogate pair.
        raise RemoteViolation("the JSON header is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        # The text names the position; or the nesting is too deep.
        raise RemoteViolation(f"the header is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise RemoteViolation("the JSON header is not an object")
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


# Made once: `json` would make new ones for each header; the encoder of a text is
# reused.
_quoted = json.JSONEncoder(ensure_ascii=False).encode
_READER = json.JSONDecoder(parse_float=str, parse_constant=_refuse_constant)
_SCAN: Callable[[str, int], tuple[Any, int]] = vars(_READER)["scan_once"]
_ONLY_TEXT = {str}


def _integer(fields: dict[str, Any], name: str, default: int | None = None) -> int:
    value = fields.get(name, default)
    if type(value) is int and _I32_MIN <= value <= _I32_MAX:
        return value
    if value is None:
        value = default
    if type(value) is not int or not _I32_MIN <= value <= _I32_MAX:
        shown = "is missing" if value is None else "is not a 32-bit integer"
        raise RemoteViolation(f"the JSON header's {name} {shown}")
    return value


def _text(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise RemoteViolation(f"the JSON header's {name} is not text")
    return value


def _ext_fields(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RemoteViolation("the JSON header's extFields are not an object")
    if value and {*map(type, value.values())} != _ONLY_TEXT:
        return _texts(value)
    return value


def _texts(fields: dict[str, Any]) -> dict[str, str]:
    """
    Returns the fields of a peer that sends some of them without quotes.
    """
    return {
        name: one if isinstance(one, str) else _scalar(name, one)
        for name, one in fields.items()
        if one is not None
    }


def _scalar(name: str, value: object) -> str:
    """
    Returns the text of a number or a boolean without quotes.
    """
    if isinstance(value, bool):
        return _LITERALS[value]
    if isinstance(value, int):
        return str(value)
    raise RemoteViolation(f"the JSON header's field {name[:64]!r} is not text")
