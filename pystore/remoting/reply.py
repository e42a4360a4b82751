"""
The reply of a handler. Pure.

Source: formats 3.1, 3.6; docs/remoting.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pystore.remoting.codes import VERSION, CommandFlag, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.fields import MissingField

__all__ = ["REMARK_CHARS_MAX", "Reply", "failure_reply", "unknown_code_reply"]

REMARK_CHARS_MAX = 512
"""The longest part of an error's text that the peer receives."""


@dataclass(frozen=True, slots=True)
class Reply:
    """
    The answer to a request.

    Attributes:
        code: `ResponseCode`.
        remark: for people, in a refusal.
        ext_fields: from `pystore.remoting.fields.encode_fields`.
        body: from a class of bodies.
    """

    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    ext_fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def to(self, request: RemotingCommand) -> RemotingCommand:
        """
        Returns the response, in JSON for any serialisation of the request.
        """
        return RemotingCommand(
            self.code,
            request.opaque,
            CommandFlag.RESPONSE,
            self.ext_fields,
            self.body,
            self.remark,
            version=VERSION,
        )


def unknown_code_reply(code: int) -> Reply:
    """
    Returns RocketMQ's reply to a request with an unknown code.
    """
    return Reply(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {code} not supported"
    )


def failure_reply(error: Exception) -> Reply:
    """
    Returns the reply after an error in a handler: one line.
    """
    if isinstance(error, MissingField):
        return Reply(error.code, str(error)[:REMARK_CHARS_MAX])
    lines = str(error).splitlines() or [""]
    text = f"{type(error).__name__}: {lines[0]}".rstrip(": ")
    return Reply(ResponseCode.SYSTEM_ERROR, text[:REMARK_CHARS_MAX])
