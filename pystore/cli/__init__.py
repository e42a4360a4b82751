"""
The command line, ``pystore``: one file per command.
"""

from __future__ import annotations

import click

from pystore.cli.lib.group import CommandGroup

__all__ = ["main"]


_CODES = """\b
Exit codes:
  0         success
  1         the checked store or data is bad
  2         wrong usage
  3         could not finish; one line on stderr gives the reason
  130, 141  stopped by Ctrl-C, or because the reader closed the pipe
"""


_PLACES = {
    "admin": "pystore.cli.admin:admin",
    "append": "pystore.cli.append:append",
    "broker": "pystore.cli.broker:broker",
    "compare": "pystore.cli.compare:compare",
    "controller": "pystore.cli.controller:controller",
    "demo": "pystore.cli.demo:demo",
    "doctor": "pystore.cli.doctor:doctor",
    "dump": "pystore.cli.dump:dump",
    "epochs": "pystore.cli.epochs:epochs",
    "ha-status": "pystore.cli.ha_status:ha_status",
    "info": "pystore.cli.info:info",
    "init-cluster": "pystore.cli.init_cluster:init_cluster",
    "recover": "pystore.cli.recover:recover",
    "recovery": "pystore.cli.recovery:recovery",
    "replica": "pystore.cli.replica:replica",
    "salvage": "pystore.cli.salvage:salvage",
    "spark": "pystore.cli.spark:spark",
    "verify": "pystore.cli.verify:verify",
}


@click.group(
    cls=CommandGroup,
    places=_PLACES,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_CODES,
)
@click.version_option(package_name="pystore-commitlog", prog_name="pystore")
def main() -> None:
    """
    A crash-safe commit log, byte-compatible with RocketMQ 5.

    STORE is the root directory of a store, which holds commitlog/. RocketMQ may have
    written it. Only append, broker, doctor, recover, recovery and replica change a
    store.
    """
