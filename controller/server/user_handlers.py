"""
Answers the requests about users and what operators did. For one event loop.

Source: docs/security.md, *Users*.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from pystore.access.gate import Gate
from pystore.access.mode import AccessMode
from pystore.access.roles import UserRole
from pystore.access.users import CONTROLLER_USER, User
from pystore.clocks import wall_ms
from pystore.controller.server.audit import LINES_MAX, order_of, read_audit
from pystore.controller.server.context import ControllerContext
from pystore.controller.server.controller_events import UserChanged
from pystore.controller.server.store_threads import CallKind
from pystore.controller.server.term import LeaderTerm
from pystore.controller.server.user_records import StaleChange, UserRecords
from pystore.errors import FormatError, InvalidError, UnavailableError
from pystore.events.event import hand_over
from pystore.records.ops import Op
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.dispatch import Handling
from pystore.remoting.fields import decode_fields, encode_fields
from pystore.remoting.framing import CommandReader
from pystore.remoting.operator_headers import (
    ChangeUserRequest,
    ChangeUserResponse,
    ReadAuditRequest,
    VerifyRequestResponse,
)
from pystore.remoting.reply import Reply

__all__ = ["UserHandlers"]

_VERIFIED_BYTES_MAX = 64 << 10


class UserHandlers:
    """
    The answers of one controller.

    Args:
        context: of the controller.
        users: as it knows them.
        leading: returns the term; raises if this controller does not lead.
        gate: verifies the requests to brokers.
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

    def table(
        self,
    ) -> Mapping[int, Callable[[RemotingCommand, Connection], Handling]]:
        """
        Returns the handlers by request code.
        """
        return {
            RequestCode.CHANGE_USER: self._change,
            RequestCode.LIST_USERS: self._list,
            RequestCode.READ_AUDIT: self._audit,
            RequestCode.VERIFY_REQUEST: self._verify,
        }

    def lock_out(self, settings: Mapping[str, str]) -> str:
        """
        Returns why these settings would lock every operator out; empty: they do not.
        """
        is_enforced = settings.get("authentication") == AccessMode.ENFORCING.value
        users = (self._users.now or {}).values()
        if not is_enforced or any(
            UserRole.OPERATOR in one.roles and one.name != CONTROLLER_USER
            for one in users
        ):
            return ""
        return (
            "no user has the role operator, so nothing could be changed any more: see "
            "pystore admin user add"
        )

    async def _change(self, request: RemotingCommand, peer: Connection) -> Reply:
        leader = self._leading()
        name = decode_fields(ChangeUserRequest, request.ext_fields).name
        store = self._context.store
        if store is None:
            raise UnavailableError("the record store is not connected; try again")
        order = order_of(request, peer.peer)
        assert order is not None

        def audited(before: User | None, after: User) -> list[Op]:
            subject = f"user {name}"
            return leader.audit.ops(order, subject, _summary(before), _summary(after))

        term = leader.authority.term
        change, run = self._users.change, self._context.threads.run
        try:
            after = await run(
                CallKind.OTHER, change, store, term, name, request.body, audited
            )
        except StaleChange as error:
            # Its sender has the key file, so it may know the version.
            told = encode_fields(ChangeUserResponse(error.version))
            return Reply(ResponseCode.CONTROLLER_INVALID_REQUEST, str(error), told)
        except (FormatError, InvalidError) as error:
            # Nothing was changed.
            return Reply(ResponseCode.CONTROLLER_INVALID_REQUEST, str(error))
        changed = UserChanged(
            time_ms=wall_ms(),
            controller=self._context.address,
            asked_by=request.asked_by(peer.peer),
            user=name,
            version=after.version,
            roles=sorted(one.value for one in after.roles),
            secrets=len(after.secrets),
        )
        hand_over(changed, self._context.tell)
        return Reply(ext_fields=encode_fields(ChangeUserResponse(after.version)))

    async def _verify(self, request: RemotingCommand, peer: Connection) -> Reply:
        reader = CommandReader(_VERIFIED_BYTES_MAX)
        reader.feed(request.body)
        asked = reader.take()
        if asked is None:
            return Reply(ResponseCode.CONTROLLER_INVALID_REQUEST, "it has no request")
        found = self._gate.verify(asked, peer.host)
        if isinstance(found, Reply):
            return found
        told = VerifyRequestResponse()
        if found is not None:
            told = VerifyRequestResponse(found.name, found.is_bound)
        return Reply(ext_fields=encode_fields(told))

    async def _audit(self, request: RemotingCommand, _: Connection) -> Reply:
        self._leading()
        header = decode_fields(ReadAuditRequest, request.ext_fields)
        count = min(max(header.count, 1), LINES_MAX)
        store = self._context.store
        if store is None:
            raise UnavailableError("the record store is not connected; try again")
        run = self._context.threads.run
        lines = await run(CallKind.OTHER, read_audit, store, count)
        return Reply(body=b"\n".join(lines))

    async def _list(self, _: RemotingCommand, __: Connection) -> Reply:
        self._leading()
        found = [
            {
                "name": one.name,
                "roles": sorted(role.value for role in one.roles),
                "bound": one.is_bound,
                "secrets": len(one.secrets),
                "version": one.version,
            }
            for name, one in sorted((self._users.now or {}).items())
            if name != CONTROLLER_USER
        ]
        return Reply(body=json.dumps({"users": found}).encode())


def _summary(user: User | None) -> str:
    if user is None or not user.secrets:
        return "no user"
    roles = ", ".join(sorted(one.value for one in user.roles))
    keys = f"{len(user.secrets)} secret{'s' * (len(user.secrets) > 1)}"
    return f"{roles}{', bound' * user.is_bound}, {keys}, version {user.version}"
