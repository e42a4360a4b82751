"""
What binds a signed request to its connection, its code and its turn. Pure.

The signature of RocketMQ covers fields and body only, so bytes that were captured could
be sent again, also with another code. So a peer of pystore asks its server for a
challenge, once for each connection, and adds three fields to each request, which the
signature covers: the challenge, the code with the flag, and a number that grows. No
clock is compared.

Source: docs/security.md, *Repeated requests*.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from pystore.remoting.command import RemotingCommand

__all__ = ["CHALLENGE", "SEQUENCE", "RequestBinding", "is_bound"]

CHALLENGE = "pystoreChallenge"
"""The field with the challenge, in the answer of the server and in each request."""

_PURPOSE = "pystorePurpose"
SEQUENCE = "pystoreSequence"
"""The field with the number of a request."""

_CHALLENGE_BYTES = 16
_DIGITS_MAX = 18


def is_bound(request: RemotingCommand) -> bool:
    """
    Returns whether a request says to which connection it belongs.
    """
    return CHALLENGE in request.ext_fields


class RequestBinding:
    """
    The binding of one connection, at either end. One thread.

    Args:
        challenge: of the server.
    """

    __slots__ = ("_sequence", "challenge")

    def __init__(self, challenge: str) -> None:
        self.challenge = challenge
        self._sequence = 0

    @staticmethod
    def new(random_bytes: Callable[[int], bytes] = os.urandom) -> RequestBinding:
        """
        Returns the binding of an accepted connection.
        """
        return RequestBinding(random_bytes(_CHALLENGE_BYTES).hex())

    def fields(self, request: RemotingCommand) -> dict[str, str]:
        """
        Returns the fields that bind a request, which is signed with them and sent next.
        """
        self._sequence += 1
        return {
            CHALLENGE: self.challenge,
            _PURPOSE: _purpose(request),
            SEQUENCE: str(self._sequence),
        }

    def take(self, request: RemotingCommand) -> bool:
        """
        Returns whether a request, whose signature was verified, belongs here and now:
        it is refused if it is sent again.
        """
        fields = request.ext_fields
        text = fields.get(SEQUENCE, "")
        if (
            fields.get(CHALLENGE) != self.challenge
            or fields.get(_PURPOSE) != _purpose(request)
            or not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX)
        ):
            return False
        if not self.is_later(int(text)):
            return False
        self.take_number(int(text))
        return True

    def is_later(self, sequence: int) -> bool:
        """
        Returns whether no request with this number or a later one was taken.
        """
        return sequence > self._sequence

    def take_number(self, sequence: int) -> None:
        """
        As `take`, of a request that differs from one that was taken in its numbers
        only.
        """
        self._sequence = sequence


def _purpose(request: RemotingCommand) -> str:
    return f"{request.code}.{request.flag}"
