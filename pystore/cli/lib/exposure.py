"""
Listening where other machines reach it needs users and TLS, or a word of the operator.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import click

from pystore.net.address import is_reachable

__all__ = ["Listener", "exposed_lines", "insecure_option"]

insecure_option = click.option(
    "--insecure",
    is_flag=True,
    help="Listen for other machines without users and TLS: strangers may give orders.",
)


class Listener(NamedTuple):
    """
    One place where a process is about to listen.

    Attributes:
        name: of the process or node, as the subject of the line.
        host: of the address; empty: every address.
        port: of the address.
        needs: the settings that it lacks to know its peers and to speak TLS; empty: it
            lacks none.
    """

    name: str
    host: str
    port: int
    needs: tuple[str, ...]


def exposed_lines(listeners: Iterable[Listener], *, insecure: bool) -> list[str]:
    """
    Returns the first lines of the log: who listens without protection.

    Raises:
        click.UsageError: one does, and the operator did not ask for it.
    """
    lines = []
    for name, host, port, needs in listeners:
        if not needs or not is_reachable(host):
            continue
        where = f"{host or 'every address'}:{port}"
        lacking = " and ".join(needs)
        if not insecure:
            raise click.UsageError(
                f"{name} would listen on {where}, which other machines reach, without "
                f"{lacking}: set them (see pystore init-cluster and docs/security.md), "
                "or say --insecure"
            )
        lines.append(f"insecure: {name} listens on {where} without {lacking}")
    return lines
