"""
The requests of admin commands to controllers, name servers and brokers.

A controller is asked for the leader, and then the leader gets the request, as in
mqadmin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pystore.access.credentials import CredentialsFile
from pystore.access.signer import RequestSigner
from pystore.controller.protocol.cluster_id import cluster_id_of
from pystore.errors import InvalidError, UnavailableError
from pystore.net.address import parse_address
from pystore.net.tls import ClientTls, TlsConfig
from pystore.remoting.admission import Signs
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.controller_headers import GetMetadataResponse
from pystore.remoting.errors import NoAnswer
from pystore.remoting.fields import decode_fields, encode_fields

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = [
    "ControllerRefusal",
    "addresses_option",
    "ask",
    "ask_each",
    "ask_leader",
    "cluster_option",
    "connect_with",
    "identified_metadata",
    "metadata",
    "set_option",
    "sign_with",
]

_TIMEOUT_MS = 5000
_FIRST_OWN_CODE = 7101
"""The requests from here on are pystore's own."""

_F = TypeVar("_F", bound=Callable[..., Any])

_signs: ContextVar[Signs[Connection] | None] = ContextVar("signs", default=None)
"""Signs the requests of this command."""

_tls: ContextVar[ClientTls | None] = ContextVar("tls", default=None)
"""Of the connections of this command."""


def connect_with(config: TlsConfig | None) -> None:
    """
    Speaks TLS on all connections of this command; ``None``: plain bytes.

    Raises:
        InvalidError: the files do not fit each other.
        OSError: one cannot be read.
    """
    _tls.set(None if config is None else ClientTls(config))


def sign_with(path: Path | None) -> None:
    """
    Signs all requests of this command with the credentials of a file; ``None``: none
    is signed.

    Raises:
        InvalidError: others may read it, or it has another form.
        OSError: it cannot be read.
    """
    _signs.set(None if path is None else RequestSigner(CredentialsFile(path).now).sign)


class ControllerRefusal(UnavailableError):
    """
    The peer answered with a refusal.

    Args:
        text: for people.
        fields: of the answer.
    """

    def __init__(self, text: str, fields: Mapping[str, str]) -> None:
        super().__init__(text)
        self.fields = fields


def _addresses(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> tuple[str, ...]:
    found = tuple(one.strip() for one in (value or "").split(";") if one.strip())
    if value is not None and not found:
        # Such as of a variable of the shell that is not set.
        raise click.BadParameter(f"{value!r} names no HOST:PORT")
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
        async with RemotingClient(signs=_signs.get(), tls=_tls.get()) as client:
            return await client.call(address, request, _TIMEOUT_MS)

    try:
        answer = asyncio.run(call())
    except NoAnswer as error:
        # A port that takes TLS only closes a connection with plain bytes.
        if _tls.get() is not None:
            raise
        raise NoAnswer(
            f"{error} (if it takes TLS only, give --tls-authorities)"
        ) from error
    if answer.code == ResponseCode.SUCCESS:
        return answer
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        is_ours = code >= _FIRST_OWN_CODE
        reason = (
            "RocketMQ has no such request"
            if is_ours
            else "another server listens there, or a name server where a controller is "
            "meant"
        )
        line = f"{address} does not support {code.name}: {reason}"
        raise ControllerRefusal(line, answer.ext_fields)
    text = " ".join((answer.remark or "without a reason").split())
    line = f"{address} refused, {_code_text(answer.code)}: {text}"
    raise ControllerRefusal(line, answer.ext_fields)


def _code_text(code: int) -> str:
    try:
        return f"{code} {ResponseCode(code).name}"
    except ValueError:
        # A code of a later RocketMQ.
        return str(code)


def ask_each(
    addresses: Sequence[str], code: RequestCode, body: bytes = b""
) -> tuple[dict[str, RemotingCommand], list[str]]:
    """
    Returns the answer of each peer that gives one, and a line for each other one.
    """
    answers: dict[str, RemotingCommand] = {}
    problems: list[str] = []
    for one in addresses:
        try:
            answers[one] = ask(one, code, body=body)
        except UnavailableError as error:
            # The others are asked nevertheless.
            problems.append(str(error))
    return answers, problems


def metadata(address: str) -> GetMetadataResponse:
    """
    Returns what one controller knows about its group.
    """
    return identified_metadata((address,))[0]


def identified_metadata(
    addresses: Sequence[str],
) -> tuple[GetMetadataResponse, str]:
    """
    Returns what the first controller that answers knows about its group, and the
    identity of its record store; empty: it tells none.

    Raises:
        UnavailableError: none answers; the line has the reason of each.
    """
    problems: list[str] = []
    for one in addresses:
        try:
            answer = ask(one, RequestCode.CONTROLLER_GET_METADATA_INFO)
        except UnavailableError as error:
            # Another one may answer.
            problems.append(str(error))
            continue
        fields = answer.ext_fields
        return decode_fields(GetMetadataResponse, fields), cluster_id_of(fields)
    raise UnavailableError("; ".join(problems))


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
    problems: list[str] = []
    for one in controllers:
        try:
            leader = metadata(one).controller_leader_address
        except UnavailableError as error:
            # Another controller may know.
            problems.append(str(error))
            continue
        if leader:
            return ask(leader, code, header, body)
        problems.append(f"{one} knows no leading controller; try again")
    raise UnavailableError("; ".join(problems))
