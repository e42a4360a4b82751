"""
The options of a command that connects to peers over TLS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from pystore.net.tls import ClientTls, TlsMode, tls_config

__all__ = ["peer_tls", "peer_tls_options"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def peer_tls_options(command: _Function) -> _Function:
    """
    Adds ``--tls-authorities``, ``--tls-certificate`` and ``--tls-key`` to a command, as
    its arguments ``authorities``, ``certificate`` and ``key``.
    """
    for name, argument, text in (
        ("--tls-key", "key", "The key of --tls-certificate."),
        ("--tls-certificate", "certificate", "Show this certificate to peers."),
        (
            "--tls-authorities",
            "authorities",
            "Speak TLS, and verify peers with these certificates.",
        ),
    ):
        command = click.option(
            name,
            argument,
            default="",
            envvar=f"PYSTORE_{name.removeprefix('--').replace('-', '_').upper()}",
            metavar="FILE",
            help=text,
        )(command)
    return command


def peer_tls(authorities: str, certificate: str, key: str) -> ClientTls | None:
    """
    Returns how to connect to peers; ``None``: with plain bytes.

    Raises:
        click.UsageError: a certificate without authorities.
        PystoreError: as `pystore.net.tls.ClientTls`.
    """
    if not authorities:
        if certificate or key:
            raise click.UsageError("--tls-certificate needs --tls-authorities")
        return None
    mode = TlsMode.DISABLED.value
    return ClientTls(tls_config(mode, certificate, key, authorities))
