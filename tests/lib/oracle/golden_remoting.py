"""
Reads ``tests/golden/remoting``: commands as RocketMQ's classes encoded them.
"""

from __future__ import annotations

from typing import Any

from lib.oracle.golden_data import GOLDEN, read_lines
from pystore.remoting.codes import Language, Serialisation
from pystore.remoting.command import RemotingCommand
from pystore.remoting.framing import CommandReader

_FOLDER = GOLDEN / "remoting"

FRAMES: list[dict[str, Any]] = read_lines(_FOLDER / "frames.jsonl.gz")
MALFORMED: list[dict[str, Any]] = read_lines(_FOLDER / "malformed.jsonl.gz")
HEADER_VALUES: list[dict[str, Any]] = read_lines(_FOLDER / "header-values.jsonl")


def raw(line: dict[str, Any]) -> bytes:
    """
    The whole frame of a line.
    """
    return bytes.fromhex(line["frameHex"])


def as_java_saw_it(decoded: dict[str, Any]) -> RemotingCommand:
    """
    The command that Java's fields say; what is null there is absent here.
    """
    fields = decoded["extFields"] or {}
    return RemotingCommand(
        code=decoded["code"],
        opaque=decoded["opaque"],
        flag=decoded["flag"],
        ext_fields={k: v for k, v in fields.items() if v is not None},
        body=bytes.fromhex(decoded["bodyHex"] or ""),
        remark=decoded["remark"],
        language=Language[decoded["language"] or "OTHER"],
        version=decoded["version"],
        serialisation=Serialisation[decoded["serializeType"]],
    )


def decode_whole(data: bytes) -> RemotingCommand | None:
    """
    The command at the front of these bytes.
    """
    reader = CommandReader()
    reader.feed(data)
    return reader.take()
