"""
Takes the heartbeats of hosts (7119), describes hosts page by page (7125), and forgets
one that is gone for good (7127). For one event loop.

Source: docs/controller.md, *Hosts*; C2.
"""

from __future__ import annotations

from collections.abc import Callable

from pystore.controller.model.limits import HEARTBEAT_TIMEOUT_MAX_MS
from pystore.controller.protocol.host_descriptions import (
    HOST_BODY_BYTES_MAX,
    decode_hosts,
    encode_hosts,
)
from pystore.controller.server.context import ControllerContext
from pystore.controller.server.term import LeaderTerm
from pystore.remoting.codes import ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.fields import decode_fields, encode_fields
from pystore.remoting.host_headers import (
    DescribeHostsRequest,
    DescribeHostsResponse,
    ForgetHostRequest,
    HostHeartbeatRequest,
)
from pystore.remoting.reply import Reply

__all__ = ["HostHandlers"]

_PAGE_HOSTS = 200
"""A page of them is shorter than the longest frame."""
_MS = 1_000_000
_NAMED_MAX = 10


class HostHandlers:
    """
    The answers to 7119, 7125 and 7127.

    Args:
        context: of the controller.
        leading: returns the term of this controller, or raises `NotLeading`.
    """

    def __init__(
        self, context: ControllerContext, leading: Callable[[], LeaderTerm]
    ) -> None:
        self._context = context
        self._leading = leading

    async def take(self, request: RemotingCommand, _: Connection) -> Reply:
        """
        Takes a heartbeat.

        Raises:
            NotLeading: this controller does not lead.
            RemoteViolation: it is malformed.
        """
        leader = self._leading()
        header = decode_fields(HostHeartbeatRequest, request.ext_fields)
        hosts = (
            ()
            if len(request.body) > HOST_BODY_BYTES_MAX
            else decode_hosts(request.body)
        )
        timeout_ms = header.timeout_millis
        if len(hosts) != 1 or not 0 < timeout_ms <= HEARTBEAT_TIMEOUT_MAX_MS:
            return _refused(
                f"a heartbeat of a host has the description of one, at most "
                f"{HOST_BODY_BYTES_MAX} bytes, and is valid for at most "
                f"{HEARTBEAT_TIMEOUT_MAX_MS} ms",
            )
        if not leader.hosts.receive(hosts[0], timeout_ms, self._context.clock_ns()):
            return _refused("there are too many hosts")
        leader.host_records.changed()
        return Reply()

    async def answer(self, request: RemotingCommand, _: Connection) -> Reply:
        """
        Returns the description of some hosts.

        Raises:
            NotLeading: this controller does not lead.
        """
        leader = self._leading()
        header = decode_fields(DescribeHostsRequest, request.ext_fields)
        now_ns = self._context.clock_ns()
        found = leader.hosts.after(header.after_host, _PAGE_HOSTS + 1, now_ns)
        page = found[:_PAGE_HOSTS]
        told = DescribeHostsResponse(
            (now_ns - leader.authority.began_ns) // _MS,
            leader.may_replace,
            page[-1].address if len(found) > _PAGE_HOSTS else "",
        )
        return Reply(ext_fields=encode_fields(told), body=encode_hosts(page))

    async def forget(self, request: RemotingCommand, _: Connection) -> Reply:
        """
        Deletes what is known of a host that is silent, and that no set needs.

        Raises:
            NotLeading: this controller does not lead.
            PystoreError: the record store refuses.
        """
        leader = self._leading()
        host = decode_fields(ForgetHostRequest, request.ext_fields).host
        if not leader.may_replace:
            return Reply(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "this controller leads too short a time to know which hosts are alive",
            )
        found = leader.hosts.find(host, self._context.clock_ns())
        if found is None:
            return Reply()
        if found.is_alive:
            return _refused(f"host {host} is alive: stop it first")
        needed = leader.hosts.needed(host)
        if needed:
            names = ", ".join(
                f"{one.cluster}/{one.set_name}/{one.broker_id}"
                for one in needed[:_NAMED_MAX]
            )
            return _refused(
                f"{len(needed)} replicas of host {host} are brokers of their sets, "
                f"such as {names}: have it emptied (`pystore recovery decommission`)"
            )
        await leader.host_records.forget(host)
        return Reply()


def _refused(reason: str) -> Reply:
    return Reply(ResponseCode.CONTROLLER_INVALID_REQUEST, reason)
