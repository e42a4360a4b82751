"""
The gate of a broker, which has no users: it asks its controllers who sent a request.

So no secret leaves the controllers, and their mode holds for the whole cluster. A
request is bound to its connection here (`pystore.remoting.binding`).

Source: docs/security.md, *Brokers*.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from pystore.access.gate import REFUSED, UNBOUND, challenge_reply
from pystore.clocks import clock_ms
from pystore.errors import PystoreError
from pystore.remoting.binding import is_bound
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection, Handler
from pystore.remoting.fields import decode_fields
from pystore.remoting.framing import encode_frame
from pystore.remoting.line_rate import LineRate
from pystore.remoting.operator_headers import VerifyRequestResponse
from pystore.remoting.repeated_request import RepeatedRequest
from pystore.remoting.reply import Reply

__all__ = ["RemoteGate"]

_ALLOWED = {ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED}
"""A controller of RocketMQ supports no such question: it knows no users."""

_UNKNOWN = "no controller says who sent the request: try again"

Verify = Callable[[bytes], Awaitable[RemotingCommand]]
"""Sends the frame of a request to a controller; returns its answer to 7115."""


class RemoteGate:
    """
    The gate of one broker. For one event loop.

    Args:
        verify: asks a controller; ``None``: this broker has no credentials, and lets
            every request pass.
        is_enforcing: whether the controllers said that they enforce.
        say: receives one line for people about a request that it refuses itself.
        now_ms: a clock that never steps back.
    """

    def __init__(
        self,
        verify: Verify | None,
        is_enforcing: Callable[[], bool] = bool,
        say: Callable[[str], object] = bool,
        now_ms: Callable[[], int] = clock_ms,
    ) -> None:
        self._verify = verify
        self._is_enforcing = is_enforcing
        self._lines = LineRate(say)
        self._now_ms = now_ms
        self._codes: frozenset[int] = frozenset()

    def guard(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """
        Returns handlers that ask before they begin, and the one for challenges.
        """
        found = {code: self._guarded(one) for code, one in handlers.items()}
        found[RequestCode.GET_CHALLENGE] = lambda _, peer: challenge_reply(peer)
        self._codes = frozenset(found)
        return found

    def admit(self, request: RemotingCommand, _: Connection) -> RemotingCommand | Reply:
        """
        Returns the request, or its refusal if no handler would ask about it: no
        controller is asked, and a stranger does not learn which codes there are.
        """
        if request.code in self._codes or not self._is_enforcing():
            return request
        return Reply(ResponseCode.NO_PERMISSION, REFUSED)

    def admits_repeat(self, _: RepeatedRequest, __: Connection) -> bool:
        """
        Returns that it may be answered: no handler of a broker expects any.
        """
        return True

    def _guarded(self, handler: Handler) -> Handler:
        async def answered(request: RemotingCommand, peer: Connection) -> Reply:
            admitted = await self._admit(request, peer)
            if isinstance(admitted, Reply):
                return admitted
            found = handler(admitted, peer)
            return found if isinstance(found, Reply) else await found

        return answered

    async def _admit(
        self, request: RemotingCommand, peer: Connection
    ) -> RemotingCommand | Reply:
        if self._verify is None:
            return request
        try:
            answer = await self._verify(encode_frame(request))
        except PystoreError as error:
            # It is not known who sent it: nothing is done.
            self._tell(
                f"a request of {peer.host}: no controller says who sent it: {error}"
            )
            return Reply(ResponseCode.SERVICE_NOT_AVAILABLE, _UNKNOWN)
        if answer.code not in _ALLOWED:
            return Reply(answer.code, answer.remark)
        told = decode_fields(VerifyRequestResponse, answer.ext_fields)
        if not told.user:
            # The controllers do not enforce, or are RocketMQ's.
            return request
        if is_bound(request):
            is_taken = peer.binding is not None and peer.binding.take(request)
        else:
            is_taken = not told.is_bound
        if not is_taken:
            self._tell(f"a request of {peer.host} is refused: {UNBOUND}")
            return Reply(ResponseCode.NO_PERMISSION, REFUSED)
        return replace(request, user=told.user)

    def _tell(self, line: str) -> None:
        self._lines.say(line, self._now_ms() / 1000)
