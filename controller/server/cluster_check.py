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
    is_told,
    refusal_of,
)
from pystore.controller.server.context import ControllerContext
from pystore.controller.server.new_cluster import NewCluster
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
        new_cluster: takes note of a broker that finds an empty record store.
    """

    def __init__(self, context: ControllerContext, new_cluster: NewCluster) -> None:
        self._context = context
        self._new_cluster = new_cluster
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
        own = self._context.cluster_id
        if is_told(request.ext_fields, own):
            # Each heartbeat of a broker that belongs here.
            return None
        theirs = cluster_id_of(request.ext_fields)
        if theirs and not own:
            return self._lost(theirs, peer)
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

    def _lost(self, theirs: str, peer: Connection) -> Reply | None:
        """
        Returns the refusal of a broker whose record store is lost; ``None``: this
        controller does not know its record store, as it never led.
        """
        new = self._new_cluster
        new.note_evidence(f"{peer.peer} belongs to the record store {theirs}")
        return Reply(ResponseCode.OTHER_CLUSTER, new.reason) if new.is_awaited else None

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
