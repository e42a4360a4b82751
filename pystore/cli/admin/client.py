"""
The requests of admin commands to controllers, name servers and brokers.

A controller is asked for the leader, and then the leader gets the request, as in
mqadmin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pystore.controller.protocol.cluster_id import cluster_id_of
from pystore.errors import InvalidError, UnavailableError
from pystore.net.address import parse_address
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.controller_headers import GetMetadataResponse
from pystore.remoting.fields import decode_fields, encode_fields

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = [
    "ControllerRefusal",
    "addresses_option",
    "ask",
    "ask_leader",
    "cluster_option",
    "identified_metadata",
    "metadata",
    "set_option",
]

_TIMEOUT_MS = 5000

_F = TypeVar("_F", bound=Callable[..., Any])


class ControllerRefusal(UnavailableError):
    """
    The peer answered with a refusal.
    """


def _addresses(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> tuple[str, ...]:
    found = tuple(one.strip() for one in (value or "").split(";") if one.strip())
    for one in found:
        try:
            parse_address(one)
        except InvalidError as error:
            # Wrong usage, before any request is sent.
            raise click.BadParameter(str(error)) from error
    return found


def addresses_option(
    *names: str, help_text: str, is_required: bool = True
) -> Callable[[_F], _F]:
    """
    Adds a list of addresses to a command.
    """
    return click.option(
        *names,
        required=is_required,
        callback=_addresses,
        metavar="HOST:PORT[;...]",
        help=help_text,
    )


def set_option(command: _F) -> _F:
    """
    Adds the name of a broker set, as its argument ``name``.
    """
    return click.option(
        "-bn", "--brokerName", "name", required=True, metavar="NAME", help="Broker set."
    )(command)


def cluster_option(command: _F) -> _F:
    """
    Adds the cluster of a set, as its argument ``cluster``.
    """
    return click.option(
        "-c",
        "--clusterName",
        "cluster",
        default="",
        metavar="NAME",
        help="Cluster of the set, if several have a set of that name.",
    )(command)


def ask(
    address: str,
    code: RequestCode,
    header: DataclassInstance | None = None,
    body: bytes = b"",
) -> RemotingCommand:
    """
    Returns the answer of one peer.

    Raises:
        ControllerRefusal: the peer refused; the line has its address, code and reason.
        UnavailableError: the peer does not answer.
        InvalidError: the request does not fit a frame.
    """
    fields: Mapping[str, str] = {} if header is None else encode_fields(header)
    request = RemotingCommand(code, ext_fields=fields, body=body)

    async def call() -> RemotingCommand:
        async with RemotingClient() as client:
            return await client.call(address, request, _TIMEOUT_MS)

    answer = asyncio.run(call())
    if answer.code == ResponseCode.SUCCESS:
        return answer
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        raise ControllerRefusal(
            f"{address} does not support {code.name}: RocketMQ has no such request"
        )
    text = " ".join((answer.remark or "without a reason").split())
    raise ControllerRefusal(f"{address} refused, {_code_text(answer.code)}: {text}")


def _code_text(code: int) -> str:
    try:
        return f"{code} {ResponseCode(code).name}"
    except ValueError:
        # A code of a later RocketMQ.
        return str(code)


def metadata(address: str) -> GetMetadataResponse:
    """
    Returns what one controller knows about its group.
    """
    return identified_metadata(address)[0]


def identified_metadata(address: str) -> tuple[GetMetadataResponse, str]:
    """
    Returns what one controller knows about its group, and the identity of its record
    store; empty: it tells none.
    """
    answer = ask(address, RequestCode.CONTROLLER_GET_METADATA_INFO)
    fields = answer.ext_fields
    return decode_fields(GetMetadataResponse, fields), cluster_id_of(fields)


def ask_leader(
    controllers: tuple[str, ...],
    code: RequestCode,
    header: DataclassInstance | None = None,
    body: bytes = b"",
) -> RemotingCommand:
    """
    Returns the answer of the controller that leads.

    Args:
        controllers: asked for the leader one by one, until one knows it.
        code: of the request.
        header: of the request.
        body: of the request.

    Raises:
        UnavailableError: no controller leads, none answers, or the leader refuses.
    """
    reason = "no controller is named"
    for one in controllers:
        try:
            leader = metadata(one).controller_leader_address
        except UnavailableError as error:
            # Another controller may know.
            reason = str(error)
            continue
        if leader:
            return ask(leader, code, header, body)
        reason = f"{one} knows no leading controller; try again"
    raise UnavailableError(reason)
