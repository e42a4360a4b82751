"""
Tells the leading controller of a host (7119), asks it for all hosts (7125), and has it
forget one (7127).

Source: docs/controller.md, *Hosts*.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from pystore.controller.client.client import ControllerClient
from pystore.controller.protocol.host_descriptions import (
    HostDescription,
    HostsPage,
    decode_hosts,
    encode_hosts,
)
from pystore.errors import InvalidError, RemoteViolation, UnavailableError
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.fields import decode_fields, encode_fields
from pystore.remoting.host_headers import (
    DescribeHostsRequest,
    DescribeHostsResponse,
    ForgetHostRequest,
    HostHeartbeatRequest,
)

__all__ = ["describe_hosts", "forget_host", "hosts_page_of", "send_host_heartbeat"]


async def send_host_heartbeat(
    client: ControllerClient, host: HostDescription, timeout_ms: int
) -> None:
    """
    Tells the leading controller what a host is.

    Args:
        client: to the controllers; of its loop.
        host: as it is now.
        timeout_ms: how long this is valid.

    Raises:
        UnavailableError: no controller leads, it does not answer, or it refuses.
    """
    request = RemotingCommand(
        RequestCode.HOST_HEARTBEAT,
        ext_fields=encode_fields(HostHeartbeatRequest(timeout_ms)),
        body=encode_hosts([host]),
    )
    _check(await client.call_leader(request), RequestCode.HOST_HEARTBEAT)


async def describe_hosts(client: ControllerClient) -> AsyncIterator[HostsPage]:
    """
    Yields the description of all hosts, page by page, as
    `pystore.controller.client.set_descriptions.describe_sets` does of sets.

    Args:
        client: to the controllers; of its loop.

    Raises:
        UnavailableError: no controller leads, it does not answer, it refuses, or its
            answer is invalid. What was yielded before is a part only.
    """
    header = DescribeHostsRequest()
    while True:
        request = RemotingCommand(
            RequestCode.DESCRIBE_HOSTS, ext_fields=encode_fields(header)
        )
        answer = await client.call_leader(request)
        try:
            page, header = hosts_page_of(answer)
        except RemoteViolation as error:
            raise UnavailableError(f"the answer to 7125 is invalid: {error}") from error
        yield page
        if not header.after_host:
            return


async def forget_host(client: ControllerClient, host: str) -> None:
    """
    Has the leading controller delete what it knows of a host. One that it does not know
    is fine.

    Args:
        client: to the controllers; of its loop.
        host: its address.

    Raises:
        InvalidError: it is alive, or a set needs it.
        UnavailableError: no controller leads, or it does not answer; what was asked for
            may be done or not. Or it has led for too short a time, or is too old.
    """
    request = RemotingCommand(
        RequestCode.FORGET_HOST, ext_fields=encode_fields(ForgetHostRequest(host))
    )
    answer = await client.call_leader(request)
    if answer.code == ResponseCode.CONTROLLER_INVALID_REQUEST:
        raise InvalidError(" ".join((answer.remark or "").split()))
    _check(answer, RequestCode.FORGET_HOST)


def hosts_page_of(answer: RemotingCommand) -> tuple[HostsPage, DescribeHostsRequest]:
    """
    Returns the page of an answer to 7125, and the request for the next one; with an
    empty host it is the last.

    Raises:
        UnavailableError: it is a refusal.
        RemoteViolation: it is invalid.
    """
    _check(answer, RequestCode.DESCRIBE_HOSTS)
    told = decode_fields(DescribeHostsResponse, answer.ext_fields)
    page = HostsPage(
        told.led_millis, told.may_replace_master, decode_hosts(answer.body)
    )
    return page, DescribeHostsRequest(told.next_host)


def _check(answer: RemotingCommand, code: RequestCode) -> None:
    if answer.code != ResponseCode.SUCCESS:
        remark = " ".join((answer.remark or "").split())[:200]
        raise UnavailableError(
            f"the controller refuses {code.value}, {answer.code}: {remark}"
        )
