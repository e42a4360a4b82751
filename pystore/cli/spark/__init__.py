"""
``pystore spark``: the jobs that run on Spark, on this machine or on a cluster.
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
    Jobs that read stores on Spark: needs Java 17 or 21 and the extra "spark".

    Without --master a job runs in this process, on every processor; a script for
    spark-submit is two lines: "from pystore.cli import main" and "main()".
    """


def master_option(command: _Function) -> _Function:
    """
    Adds ``--master`` to a job, as its argument ``master``.
    """
    return click.option(
        "--master",
        metavar="URL",
        help="Where to run: local[2], spark://host:7077. By default what spark-submit "
        "says, else local[*].",
    )(command)
