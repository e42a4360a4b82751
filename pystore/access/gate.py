"""
The gate of a server: each request passes it before its handler, one-way ones too.

Source: docs/security.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pystore.access.mode import AccessMode
from pystore.access.refusals import RefusalCounts
from pystore.access.roles import UserRole, roles_of
from pystore.access.users import User
from pystore.remoting.binding import CHALLENGE, RequestBinding, is_bound
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.repeated_request import RepeatedRequest
from pystore.remoting.reply import Reply
from pystore.remoting.signature import (
    ACCESS_KEY,
    SIGNATURE,
    is_signature,
    is_signed_by,
)

__all__ = ["REFUSED", "UNBOUND", "Gate", "challenge_reply"]


_NOT_READ = "this server has not read its users yet: try again"
_UNSIGNED = "it is not signed"
_UNVERIFIED = "its signature is not one of a known user"
UNBOUND = "it is not bound to its connection, or was sent before"

REFUSED = "the request is refused"
"""What each stranger is told, and nothing else."""


class Gate:
    """
    Verifies who sent a request, and whether its role allows it. For one event loop.

    Args:
        mode: returns the present mode.
        users: returns the present users by name; ``None``: they are not known yet.
        say: receives one line for people.
        clock_s: seconds of a clock that never steps back.
    """

    def __init__(
        self,
        mode: Callable[[], AccessMode],
        users: Callable[[], Mapping[str, User] | None],
        say: Callable[[str], object],
        clock_s: Callable[[], float],
    ) -> None:
        self._mode = mode
        self._users = users
        self._clock_s = clock_s
        self.refusals = RefusalCounts(say)

    def admit(
        self, request: RemotingCommand, peer: Connection
    ) -> RemotingCommand | Reply:
        """
        Returns the request with the user that signed it, or its refusal.
        """
        if request.code == RequestCode.GET_CHALLENGE:
            return challenge_reply(peer)
        found = self._judged(request, peer.host)
        if isinstance(found, Reply) or found is None:
            return found or request
        if is_bound(request):
            is_taken = peer.binding is not None and peer.binding.take(request)
        else:
            is_taken = not found.is_bound
        if is_taken:
            return replace(request, user=found.name)
        return self._refused(peer.host, UNBOUND) or request

    def signer(self, request: RemotingCommand) -> User | None:
        """
        Returns the user that signed a request, in each mode; ``None``: none did.
        """
        user = (self._users() or {}).get(request.ext_fields.get(ACCESS_KEY, ""))
        if user is None or not any(
            is_signed_by(request, secret) for secret in user.secrets
        ):
            return None
        return user

    def verify(self, request: RemotingCommand, host: str) -> User | Reply | None:
        """
        Returns the user that signed a request to a broker, or the refusal; ``None``:
        the mode refuses nothing. Whether it is bound to its connection the broker
        knows.

        Args:
            request: as the broker received it.
            host: the address of the broker.
        """
        return self._judged(request, host)

    def _judged(self, request: RemotingCommand, host: str) -> User | Reply | None:
        if self._mode() is AccessMode.OFF:
            return None
        if self._users() is None:
            return Reply(ResponseCode.SERVICE_NOT_AVAILABLE, _NOT_READ)
        if SIGNATURE not in request.ext_fields:
            return self._refused(host, _UNSIGNED)
        user = self.signer(request)
        if user is None:
            return self._refused(host, _UNVERIFIED)
        if not user.roles & roles_of(request):
            reason = f"user {user.name} has no role for request {request.code}"
            # Not a stranger: it learns why.
            return self._refused(host, reason, reason)
        return user

    def _refused(self, host: str, reason: str, told: str = REFUSED) -> Reply | None:
        """
        Counts a refusal; returns it, or ``None`` if the mode refuses nothing.
        """
        is_refused = self._mode() is AccessMode.ENFORCING
        self.refusals.note(host, reason, self._clock_s(), is_refused=is_refused)
        return Reply(ResponseCode.NO_PERMISSION, told) if is_refused else None

    def admits_repeat(self, repeat: RepeatedRequest, peer: Connection) -> bool:
        """
        Returns whether a heartbeat that repeats an admitted one is signed by a user
        that may send it. Others are decoded, and meet `admit`.
        """
        if self._mode() is AccessMode.OFF:
            return True
        user = (self._users() or {}).get(repeat.user)
        if (
            user is None
            or repeat.code != RequestCode.BROKER_HEARTBEAT
            or UserRole.BROKER not in user.roles
            or not _is_signed(user, repeat)
        ):
            return False
        if repeat.sequence is None:
            return not user.is_bound
        binding = peer.binding
        return binding is not None and binding.is_later(repeat.sequence)


def _is_signed(user: User, repeat: RepeatedRequest) -> bool:
    # A generator for `any` would take as long as the comparison.
    for secret in user.secrets:
        if is_signature(repeat.signature, repeat.content, secret):
            return True
    return False


def challenge_reply(peer: Connection) -> Reply:
    """
    Returns the answer to 7111: the challenge of this connection.
    """
    if peer.binding is None:
        peer.binding = RequestBinding.new()
    return Reply(ext_fields={CHALLENGE: peer.binding.challenge})
