"""
Exports and imports of the records of sets. For one event loop.

Source: docs/operations.md, *All controllers are lost*.
"""

from __future__ import annotations

from collections.abc import Callable

from pystore.controller.model.codec import decode, encode
from pystore.controller.model.commands import ImportSet
from pystore.controller.model.decision import Rejected
from pystore.controller.model.state import SetKey
from pystore.controller.protocol.cluster_id import is_cluster_id
from pystore.controller.protocol.server_codec_answers import answer
from pystore.controller.server.audit import order_of
from pystore.controller.server.context import ControllerContext
from pystore.controller.server.new_cluster import NewCluster
from pystore.controller.server.record_keys import set_key
from pystore.controller.server.term import LeaderTerm
from pystore.errors import FormatError
from pystore.remoting.codes import ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.fields import MissingField, decode_fields, encode_fields
from pystore.remoting.operator_headers import (
    ExportSetsRequest,
    ExportSetsResponse,
    ImportSetRequest,
)
from pystore.remoting.reply import Reply

__all__ = ["SetTransfer"]

_PAGE_BYTES = 1 << 18
_PAGE_SETS = 500


class SetTransfer:
    """
    The answers to 7108 and 7109.

    Args:
        context: of the controller.
        new_cluster: begins the cluster of an import into an empty record store.
        leading: returns the term of this controller, or raises `NotLeading`.
    """

    def __init__(
        self,
        context: ControllerContext,
        new_cluster: NewCluster,
        leading: Callable[[], LeaderTerm],
    ) -> None:
        self._context = context
        self._new_cluster = new_cluster
        self._leading = leading

    async def export(self, request: RemotingCommand, _: Connection) -> Reply:
        """
        Returns the records of some sets.
        """
        leader = self._leading()
        header = decode_fields(ExportSetsRequest, request.ext_fields)
        after = header.after_cluster, header.after_name
        rest = leader.sets.names_after(after, _PAGE_SETS + 1)
        lines: list[bytes] = []
        damaged: list[SetKey] = []
        last, size = ("", ""), 0
        for number, names in enumerate(rest, 1):
            try:
                lines.append(encode(leader.sets.state(names)))
                size += len(lines[-1])
            except FormatError:
                # The operator learns which one is missing.
                damaged.append(names)
            if number < len(rest) and (size > _PAGE_BYTES or number == _PAGE_SETS):
                last = names
                break
        told = ExportSetsResponse(*last, ";".join(map("/".join, damaged)))
        return Reply(ext_fields=encode_fields(told), body=b"\n".join(lines))

    async def take(self, request: RemotingCommand, peer: Connection) -> Reply:
        """
        Imports a record.
        """
        leader = self._leading()
        header = decode_fields(ImportSetRequest, request.ext_fields)
        if header.cluster_id and not is_cluster_id(header.cluster_id):
            raise MissingField(
                "clusterId is no UUID", ResponseCode.CONTROLLER_INVALID_REQUEST
            )
        try:
            state = decode(request.body, "in the body")
        except FormatError as error:
            # Nothing was changed.
            return Reply(ResponseCode.CONTROLLER_INVALID_REQUEST, str(error))
        set_key(*state.key)
        refused = await self._new_cluster.rebuilt(leader, header.cluster_id)
        if refused is not None:
            return refused
        command = ImportSet(state)
        outcome = await leader.ask(
            state.key,
            command,
            request.asked_by(peer.peer),
            order_of(request, peer.peer),
        )
        if not isinstance(outcome.decision, Rejected):
            cluster, name = state.key
            self._context.say(
                f"{request.asked_by(peer.peer)} imported set {name} of cluster "
                f"{cluster}: epoch {outcome.state.epoch}, next id "
                f"{outcome.state.next_id}"
            )
        return answer(command, outcome.decision, outcome.state)
