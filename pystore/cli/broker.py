"""
``pystore broker``: runs broker nodes until it is stopped, and asks running ones.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from pystore.broker.control_client import ControlClient
from pystore.broker.host import BrokerHost
from pystore.broker.node_status import FAILED
from pystore.broker.settings import (
    HostConfig,
    NodeSettings,
    host_of_properties,
    host_of_toml,
)
from pystore.cli.lib.exit_codes import BAD, DONE, UNFINISHED
from pystore.cli.lib.group import CommandGroup, json_option
from pystore.cli.lib.output import echo_json, table_text
from pystore.cli.lib.service import allow_files, run_until_signal, say
from pystore.errors import InvalidError
from pystore.fs.toml_file import read_toml_text
from pystore.rocketmq.properties_file import read_properties_file
from pystore.text import count_text

__all__ = ["broker"]

_EXAMPLE = """\b
Example: run the nodes of a file
  pystore broker -c broker.toml
Example: is the node master, and who is in sync?
  pystore broker status --socket /data/broker-a.sock
"""


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    short_help="Run broker nodes, and ask them.",
    epilog=_EXAMPLE,
)
@click.option(
    "-c",
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="TOML, or RocketMQ's broker.conf.",
)
@click.pass_context
def broker(context: click.Context, config: Path | None) -> int:
    """
    Run the broker nodes of a configuration file: each is a replica of one broker set,
    and master or slave as the controllers decide.

    It runs until stopped; after SIGTERM the exit code is 0. A node that fails is
    reported and closed, the others go on, and the exit code is 3. The other commands
    ask running nodes over their control socket.
    """
    if context.invoked_subcommand is not None:
        if config is not None:
            raise click.UsageError("-c is for running: leave the other command out")
        return DONE
    if config is None:
        raise click.UsageError("give -c FILE to run brokers, or a command")
    try:
        host_config = _read_config(config)
    except InvalidError as error:
        # Nothing is open yet.
        raise click.UsageError(str(error)) from error
    for line in host_config.said:
        say(line)
    allow_files()
    host = BrokerHost(host_config, say)
    code = run_until_signal(host.run(_ready))
    return UNFINISHED if code is None or host.has_failed else code


def _read_config(path: Path) -> HostConfig:
    if path.suffix == ".toml":
        return host_of_toml(read_toml_text(path), str(path))
    return host_of_properties(read_properties_file(path), str(path))


def _ready(node: NodeSettings) -> None:
    click.echo(f"pystore broker {node.name} listens on {node.config.address}")
    sys.stdout.flush()


_socket = click.option(
    "--socket",
    "path",
    required=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The control socket; by default it is STORE.sock beside the store.",
)
_node = click.option(
    "--node", default="", metavar="NAME", help="A node, if the process has several."
)


@broker.command(
    short_help="Show roles, sets and offsets of nodes.",
    epilog="""\b
Example: the status as JSON
  pystore broker status --socket /data/broker-a.sock --json
""",
)
@_socket
@_node
@json_option
def status(*, path: Path, node: str, as_json: bool) -> int:
    """
    Show role, epoch, SyncStateSet and offsets of the nodes of a running broker.

    The exit code is 1 if a node has failed.
    """
    with ControlClient(path, node) as client:
        nodes = client.status()
    if as_json:
        echo_json({"nodes": nodes})
    else:
        click.echo(_table(nodes))
        for one in nodes:
            if one["problem"]:
                click.echo(f"{one['node']}: {one['problem']}")
    return BAD if any(one["role"] == FAILED for one in nodes) else DONE


def _table(nodes: list[dict[str, Any]]) -> str:
    header = ("node", "id", "role", "epoch", "master", "SyncStateSet", "end", "confirm")
    return table_text(header, (tuple(_row(one)) for one in nodes))


def _row(node: dict[str, Any]) -> Iterator[str]:
    yield node["node"]
    for name in ("brokerId", "role", "masterEpoch", "masterId"):
        yield "-" if node[name] is None else str(node[name])
    yield ", ".join(map(str, node["syncStateSet"])) or "-"
    for name in ("endOffset", "confirmOffset"):
        yield "-" if node[name] is None else count_text(node[name])
