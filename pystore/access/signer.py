"""
Signs the requests of a client, and binds them to their connections.

Source: docs/security.md, *Repeated requests*.
"""

from __future__ import annotations

from collections.abc import Callable

from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.signature import Credentials, signed

__all__ = ["RequestSigner"]


class RequestSigner:
    """
    The signer of one client. For one event loop.

    Args:
        credentials: returns those of this moment.
    """

    def __init__(self, credentials: Callable[[], Credentials]) -> None:
        self._credentials = credentials

    def sign(self, request: RemotingCommand, peer: Connection) -> RemotingCommand:
        """
        Returns the request as it is sent next on this connection. A server of RocketMQ
        tells no challenge, so nothing binds the requests to it.
        """
        bound = {} if peer.binding is None else peer.binding.fields(request)
        return signed(request, self._credentials(), bound)
