"""
The command line, ``pystore``: one file per command.
"""

from __future__ import annotations

import click

from pystore.cli.admin import admin
from pystore.cli.append import append
from pystore.cli.commands import Commands
from pystore.cli.controller import controller
from pystore.cli.demo import demo
from pystore.cli.dump import dump
from pystore.cli.epochs import epochs
from pystore.cli.ha_status import ha_status
from pystore.cli.info import info
from pystore.cli.recover import recover
from pystore.cli.replica import replica
from pystore.cli.spark import spark
from pystore.cli.spark_compact import compact
from pystore.cli.spark_export import export
from pystore.cli.spark_verify import verify as spark_verify
from pystore.cli.verify import verify

__all__ = ["main"]


_CODES = """\b
Exit codes:
  0         done, and good
  1         what was checked is bad
  2         wrong usage
  3         could not finish; one line on stderr says why
  130, 141  stopped by Ctrl-C, or because nobody reads the output
"""


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_CODES,
)
@click.version_option(package_name="pystore-commitlog", prog_name="pystore")
def main() -> None:
    """
    A crash-safe commit log, byte-compatible with RocketMQ 5.

    STORE is the root directory of a store, the one that holds commitlog/; also of
    one that RocketMQ wrote. Only append, recover and replica ever change a
    store.
    """


for command in (
    append,
    dump,
    info,
    verify,
    recover,
    epochs,
    replica,
    ha_status,
    controller,
    admin,
    demo,
    spark,
):
    main.add_command(command)

for job in (spark_verify, compact, export):
    spark.add_command(job)
