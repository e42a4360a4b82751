"""
``pystore controller``: decides the master of each broker set.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from pystore.cli.lib.controller_config import read_controller_config
from pystore.cli.lib.exit_codes import DONE, UNFINISHED
from pystore.cli.lib.exposure import Listener, exposed_lines, insecure_option
from pystore.cli.lib.log_lines import LogLines, line_format, log_format_option
from pystore.cli.lib.service import allow_files, many_peers, run_until_signal
from pystore.controller.server.config import ControllerConfig
from pystore.controller.server.controller import Controller
from pystore.controller.server.record_store import record_store
from pystore.errors import InvalidError
from pystore.net.tls import TlsMode

__all__ = ["controller"]

_EXAMPLE = """\b
Example: one controller for brokers on this machine
  pystore controller --store /var/lib/pystore-controller
Example: one of three, each on its own host
  pystore controller -c controller.toml --zookeeper zk1:2181,zk2:2181,zk3:2181
Example: with the name server of brokers and clients
  pystore controller --store /var/lib/pystore-controller --nameserver 127.0.0.1:9876
"""


@click.command(short_help="Decide the master of each broker set.", epilog=_EXAMPLE)
@click.option(
    "-c",
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="TOML, or RocketMQ's controller.properties; options override it.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Address for brokers; by default port 9878, on this machine only.",
)
@click.option(
    "--address",
    metavar="HOST:PORT",
    help="Address that brokers use, if it differs from --listen.",
)
@click.option("--store", metavar="DIR", help="Directory of its records, for one host.")
@click.option(
    "--store-map-bytes",
    "storeMapBytes",
    metavar="N",
    help="Largest size of --store; by default 1 GiB.",
)
@click.option(
    "--zookeeper", metavar="HOSTS", help="Servers of its records, for several hosts."
)
@click.option(
    "--nameserver",
    is_flag=False,
    flag_value="",
    metavar="[HOST:PORT]",
    help="Be a name server, too; without an address on the same port.",
)
@click.option(
    "--new-cluster",
    "newCluster",
    is_flag=True,
    flag_value="true",
    default=None,
    help="Begin a new cluster in empty records, though brokers with ids are there.",
)
@insecure_option
@log_format_option
def controller(config: Path | None, *, insecure: bool, **options: str | None) -> int:
    """
    Allocate broker ids, elect masters, and keep the SyncStateSets. Brokers may be
    RocketMQ's (5.1.1 and newer, controller mode), and mqadmin works with it.

    It runs until stopped; after SIGTERM the exit code is 0. Several controllers over
    one ZooKeeper replace each other: one leads, and the others name it in their
    answers.
    """
    try:
        settings, said = _settings(config, options)
        open_store = record_store(settings)
    except InvalidError as error:
        # Nothing is open yet.
        raise click.UsageError(str(error)) from error
    exposed = exposed_lines(_listeners(settings), insecure=insecure)
    lines = LogLines(line_format(settings.log_format))
    for line in (*exposed, *said):
        lines.say(line)
    allow_files()
    # kazoo logs each attempt to connect; our own lines report the problem once.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)

    def end(reason: str) -> None:
        lines.say(reason)
        lines.flush()
        # Threads that stand still would keep any other end waiting.
        os._exit(UNFINISHED)

    node = Controller(settings, open_store, lines.say, tell=lines.tell, end=end)

    def ready(address: str) -> None:
        click.echo(f"pystore controller listens on {address}")
        if node.names.address:
            click.echo(f"pystore name server listens on {node.names.address}")

    with lines, many_peers():
        code = run_until_signal(node.run(ready))
    return DONE if code is None else code


def _settings(
    config: Path | None, options: dict[str, str | None]
) -> tuple[ControllerConfig, list[str]]:
    texts: dict[str, str] = {}
    said: list[str] = []
    given = {name: text for name, text in options.items() if text is not None}
    if config is not None:
        found = read_controller_config(config)
        texts, said = found.texts, found.said
        servers = given.get("zookeeper", texts.get("zookeeper", ""))
        found.check_peers(str(config), servers)
    # Only one record store may be named, and the command line wins.
    if "store" in given or "zookeeper" in given:
        texts.pop("store", None)
        texts.pop("zookeeper", None)
    settings = ControllerConfig().with_texts(texts | given, is_running=False)
    if options["nameserver"] == "":
        settings = replace(settings, nameserver=settings.listen)
    return settings, said


def _listeners(settings: ControllerConfig) -> Iterator[Listener]:
    needs = []
    if not settings.key_file:
        needs.append("keyFile")
    if settings.tls.mode is TlsMode.DISABLED:
        needs.append("tlsMode")
    yield Listener("the controller", *settings.listen_at, tuple(needs))
    if settings.nameserver and not settings.shares_port:
        yield Listener("the name server", *settings.nameserver_at, tuple(needs))
