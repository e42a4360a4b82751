"""
Headers in JSON, as RocketMQ writes them by default. Pure.

Read is what any JSON writer would send; what fastjson alone takes for JSON is
refused. Written is what fastjson writes: names in order, no white space, nothing for
null, all but control characters as they are.

Source: formats 3.2; docs/remoting.md.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from pystore.errors import InvalidError, RemoteViolation
from pystore.remoting.codes import Language, Serialisation
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
        InvalidError: text that UTF-8 cannot say.
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
        # Half of a pair of surrogates, which only a program makes.
        raise InvalidError("text of the command is not Unicode") from error


def decode_json_header(header: bytes, body: bytes) -> RemotingCommand:
    """
    Returns the command of a header and its body.

    Raises:
        RemoteViolation: no JSON object, or a field of another type; a header without
            code or opaque, which nobody could answer.
    """
    fields = _parse(header)
    return RemotingCommand(
        code=_integer(fields, "code"),
        opaque=_integer(fields, "opaque"),
        flag=_integer(fields, "flag", 0),
        ext_fields=_ext_fields(fields.get("extFields")),
        body=body,
        remark=_text(fields, "remark"),
        language=_LANGUAGES.get(_text(fields, "language") or "JAVA", Language.OTHER),
        version=_integer(fields, "version", 0),
        serialisation=Serialisation.JSON,
    )


def _parse(header: bytes) -> dict[str, Any]:
    try:
        # Fractions stay the text they are: only extFields may hold one.
        fields = _READER.decode(header.decode())
        if b"\\u" in header:
            json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeError as error:
        # Bytes, or an escape for half a pair, that no text has.
        raise RemoteViolation("the JSON header is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        # What is wrong with it, where; or brackets without end.
        raise RemoteViolation(f"the header is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise RemoteViolation("the JSON header is no object")
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


# Made once: `json` would make them anew for each header, and an encoder makes another
# one for each object, but not for a text.
_quoted = json.JSONEncoder(ensure_ascii=False).encode
_READER = json.JSONDecoder(parse_float=str, parse_constant=_refuse_constant)


def _integer(fields: dict[str, Any], name: str, default: int | None = None) -> int:
    value = fields.get(name)
    if value is None:
        value = default
    if type(value) is not int or not _I32_MIN <= value <= _I32_MAX:
        shown = "is missing" if value is None else "is no 32-bit integer"
        raise RemoteViolation(f"the JSON header's {name} {shown}")
    return value


def _text(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise RemoteViolation(f"the JSON header's {name} is no text")
    return value


def _ext_fields(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RemoteViolation("the JSON header's extFields are no object")
    for one in value.values():
        if type(one) is not str:
            return _texts(value)
    return value


def _texts(fields: dict[str, Any]) -> dict[str, str]:
    """
    Returns the fields of a peer that does not put all of them in quotes.
    """
    return {
        name: one if isinstance(one, str) else _scalar(name, one)
        for name, one in fields.items()
        if one is not None
    }


def _scalar(name: str, value: object) -> str:
    """
    Returns the text of a number or a boolean that a peer did not put in quotes.
    """
    if isinstance(value, bool):
        return _LITERALS[value]
    if isinstance(value, int):
        return str(value)
    raise RemoteViolation(f"the JSON header's field {name[:64]!r} is no text")
