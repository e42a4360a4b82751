"""
How a command of AutoRecovery reaches controllers and hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from pystore.access.credentials import CredentialsFile
from pystore.access.signer import RequestSigner
from pystore.autorecovery.controllers import LeadingControllers
from pystore.autorecovery.host_client import RemoteHosts
from pystore.cli.admin.client import addresses_option
from pystore.cli.lib.peer_tls import peer_tls, peer_tls_options
from pystore.controller.client.client import ControllerClient
from pystore.errors import InvalidError
from pystore.net.address import parse_address

__all__ = ["host_argument", "hosts_options", "open_hosts"]

_F = TypeVar("_F", bound=Callable[..., Any])

_controllers = addresses_option(
    "-a",
    "--controllerAddress",
    "controllers",
    help_text="Controllers, which tell all hosts and sets.",
)


def hosts_options(command: _F) -> _F:
    """
    Adds the options of `open_hosts` to a command, as its arguments ``controllers``,
    ``credentials``, ``authorities``, ``certificate`` and ``key``.
    """
    command = click.option(
        "--credentials",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar="PYSTORE_CREDENTIALS",
        metavar="FILE",
        help="Sign requests as this user, who needs the role operator.",
    )(command)
    return _controllers(peer_tls_options(command))


def _parse_host(_: click.Context, __: click.Parameter, value: str) -> str:
    try:
        parse_address(value)
    except InvalidError as error:
        # Wrong usage, before any request is sent.
        raise click.BadParameter(str(error)) from error
    return value


def host_argument(command: _F) -> _F:
    """
    Adds a host to a command, as its argument ``host``: the address of its port.
    """
    return click.argument("host", metavar="HOST:PORT", callback=_parse_host)(command)


@contextmanager
def open_hosts(
    controllers: tuple[str, ...],
    *,
    credentials: Path | None,
    authorities: str,
    certificate: str,
    key: str,
    say: Callable[[str], object] = bool,
) -> Iterator[tuple[LeadingControllers, RemoteHosts]]:
    """
    Opens the connections to controllers and hosts, as the options say.

    Raises:
        click.UsageError: a certificate without authorities.
        PystoreError: a file cannot be used.
    """
    signs = None
    if credentials is not None:
        signs = RequestSigner(CredentialsFile(credentials).now).sign
    tls = peer_tls(authorities, certificate, key)
    with (
        LeadingControllers(
            lambda: ControllerClient(controllers, say=say, signs=signs, tls=tls)
        ) as asked,
        RemoteHosts(asked, signs=signs, tls=tls, say=say) as hosts,
    ):
        yield asked, hosts
