"""
``pystore spark``: jobs on Spark, on this machine or on a cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from pystore.cli.lib.group import CommandGroup

__all__ = ["master_option", "spark"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


_PLACES = {
    "compact": "pystore.cli.spark.compact:compact",
    "export": "pystore.cli.spark.export:export",
    "verify": "pystore.cli.spark.verify:verify",
}


@click.group(
    cls=CommandGroup,
    places=_PLACES,
    short_help="Verify, compact and export stores, on Spark.",
)
def spark() -> None:
    """
    Jobs that read stores on Spark. They need Java 17 or 21 and the extra "spark"; with
    a server of Spark Connect no Java, but the extra "connect".

    Without --master a job runs on this machine, on every processor. A script for
    spark-submit has two lines: "from pystore.cli import main" and "main()".
    """


def master_option(command: _Function) -> _Function:
    """
    Adds ``--master`` to a job, as its argument ``master``.
    """
    return click.option(
        "--master",
        metavar="URL",
        help="Where to run, for example local[2] or spark://host:7077, or "
        "sc://host:15002 for a server of Spark Connect. By default the master of "
        "spark-submit, else local[*].",
    )(command)
