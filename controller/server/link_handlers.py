"""
Answers brokers that ask for the secrets of their links. For one event loop.

Source: docs/security.md, *Links*; B16.
"""

from __future__ import annotations

from collections.abc import Callable

from pystore.access.gate import Gate
from pystore.access.link_secrets import (
    LinkAnswer,
    LinkQuestion,
    link_secrets,
    seal_answer,
)
from pystore.access.mode import AccessMode
from pystore.access.roles import UserRole
from pystore.controller.model.state import SetState
from pystore.controller.protocol.extensions import parse_incarnation
from pystore.controller.server.context import ControllerContext
from pystore.controller.server.term import LeaderTerm
from pystore.controller.server.user_records import UserRecords
from pystore.remoting.codes import ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.fields import decode_fields
from pystore.remoting.operator_headers import LinkSecretsRequest
from pystore.remoting.reply import Reply
from pystore.replicaset import Member

__all__ = ["LinkHandlers"]


class LinkHandlers:
    """
    The answers of one controller.

    Args:
        context: of the controller.
        users: as it knows them, with the key file.
        leading: returns the term; raises if this controller does not lead.
        gate: verifies who asks, in each mode.
    """

    def __init__(
        self,
        context: ControllerContext,
        users: UserRecords,
        leading: Callable[[], LeaderTerm],
        gate: Gate,
    ) -> None:
        self._context = context
        self._users = users
        self._leading = leading
        self._gate = gate

    @property
    def mode(self) -> AccessMode | None:
        """
        The mode, as it is told to brokers; ``None``: this controller has no key file,
        so it gives no secrets.
        """
        if self._users.keys is None:
            return None
        return AccessMode(self._context.settings.now.authentication)

    async def answer(self, request: RemotingCommand, _: Connection) -> Reply:
        """
        Answers 7116: one sealed text for each secret of the broker's user.
        """
        leader = self._leading()
        header = decode_fields(LinkSecretsRequest, request.ext_fields)
        asked = LinkQuestion(
            header.cluster_name,
            header.broker_name,
            header.broker_id,
            parse_incarnation(header.incarnation),
            header.nonce,
        )
        user, keys, mode = self._gate.signer(request), self._users.keys, self.mode
        if user is None or UserRole.BROKER not in user.roles:
            return Reply(ResponseCode.NO_PERMISSION, "no user with the role broker")
        if keys is None or mode is None:
            return Reply(
                ResponseCode.CONTROLLER_INVALID_REQUEST,
                "this controller has no key file: see keyFile",
            )
        state = leader.sets.state((asked.cluster, asked.broker_name))
        if not _is_registered(state, asked):
            return Reply(
                ResponseCode.CONTROLLER_INVALID_REQUEST,
                f"broker {asked.broker_id} of set {asked.broker_name} is not "
                "registered with this process",
            )
        told = LinkAnswer(mode)
        if state.epoch:
            me = Member(asked.broker_id, asked.incarnation)
            own = link_secrets(keys, asked, state.epoch, is_master=state.master == me)
            told = LinkAnswer(mode, own)
        sealed = [seal_answer(told, asked, one) for one in user.secrets]
        return Reply(body="\n".join(sealed).encode())


def _is_registered(state: SetState, asked: LinkQuestion) -> bool:
    known = state.replica(asked.broker_id)
    return known is not None and known.incarnation == asked.incarnation
