"""
Who belongs to the record store of this controller. For one event loop.

Source: docs/identity.md, *The identity of the controllers*.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from pystore.controller.protocol.cluster_id import (
    cluster_id_fields,
    cluster_id_of,
    refusal_of,
)
from pystore.controller.server.context import ControllerContext
from pystore.remoting.codes import ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection, Handler
from pystore.remoting.reply import Reply

__all__ = ["ClusterCheck"]

_SAID_MAX = 64


class ClusterCheck:
    """
    Refuses requests of brokers that belong to another record store.

    Args:
        context: of the controller.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._said: set[str] = set()

    @property
    def fields(self) -> dict[str, str]:
        """
        The extension fields of an answer.
        """
        return cluster_id_fields(self._context.cluster_id)

    def refusal(self, request: RemotingCommand, peer: Connection) -> Reply | None:
        """
        Returns the refusal of a request; ``None``: its sender belongs here, or tells no
        record store.

        Raises:
            MissingField: what it tells is malformed.
        """
        own, theirs = self._context.cluster_id, cluster_id_of(request.ext_fields)
        text = refusal_of(theirs, own)
        if not text:
            return None
        if theirs not in self._said and len(self._said) < _SAID_MAX:
            # Once for each, and bounded: anyone can send any identity.
            self._said.add(theirs)
            self._context.say(
                f"{peer.peer} belongs to the record store {theirs} and is refused: "
                f"this controller has {own}"
            )
        return Reply(ResponseCode.OTHER_CLUSTER, text, self.fields)

    def checked(
        self, handle: Callable[[RemotingCommand, Connection], Awaitable[Reply]]
    ) -> Handler:
        """
        Returns a handler that refuses strangers, and names the record store in each
        answer.
        """

        async def answered(request: RemotingCommand, peer: Connection) -> Reply:
            refused = self.refusal(request, peer)
            if refused is not None:
                return refused
            reply = await handle(request, peer)
            return replace(reply, ext_fields={**reply.ext_fields, **self.fields})

        return answered
