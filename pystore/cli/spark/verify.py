"""
``pystore spark verify``: checks stores on Spark, and compares replicas.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pystore.cli.lib.exit_codes import BAD, DONE, UNFINISHED
from pystore.cli.lib.group import json_option
from pystore.cli.lib.output import echo_json
from pystore.cli.lib.sizes import parse_size
from pystore.cli.spark import master_option
from pystore.fs.layout import COMMIT_LOG
from pystore.text import count_text, rate_text, seconds_text, size_text

if TYPE_CHECKING:
    from pystore.spark.verify.run import VerifyRun

__all__ = ["verify"]

_EXAMPLE = """\b
Examples: compare three replicas; check 100 GB each hour
  pystore spark verify --replicas all --into audit /data/a /data/b /data/c
  pystore spark verify --continuous --budget 100g --pause 3600 --into audit '/data/*'
"""


@click.command(short_help="Check stores, and compare replicas.", epilog=_EXAMPLE)
@click.argument("stores", metavar="STORE...", nargs=-1, required=True)
@click.option(
    "--replicas",
    type=click.Choice(["auto", "all", "none"]),
    default="auto",
    show_default=True,
    help="Which stores to compare with each other: those of one broker set, all, none.",
)
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the round here: audit/round=N/ (Parquet), summary.json, report.html.",
)
@click.option(
    "--sample",
    type=click.IntRange(0, 100),
    default=100,
    metavar="PERCENT",
    help="Read only this share of each segment's blocks, other blocks in each round. "
    "Records are then checked in the first block only.",
)
@click.option(
    "--budget",
    callback=parse_size,
    metavar="SIZE",
    help="Read at most SIZE in a round: first segments that were never checked, then "
    "those with the oldest check. Needs --into, which keeps the rounds.",
)
@click.option("--continuous", is_flag=True, help="Run round after round, until Ctrl-C.")
@click.option(
    "--rounds", type=click.IntRange(1), metavar="N", help="Stop after N rounds."
)
@click.option(
    "--pause",
    type=click.FloatRange(0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Time between two rounds.",
)
@master_option
@json_option
def verify(
    *,
    stores: tuple[str, ...],
    replicas: str,
    into: Path | None,
    sample: int,
    budget: int | None,
    continuous: bool,
    rounds: int | None,
    pause: float,
    master: str | None,
    as_json: bool,
) -> int:
    """
    Check every segment of each STORE on Spark. No store is changed.

    STORE is a root, a glob or a file: URL. The job checks records, checksums, queue
    offsets, consume queues, epochs and seals, and compares replicas block by block.
    Each segment of each store gets a verdict with its evidence: OK, UNSEALED (valid,
    but there is no seal and no replica to compare with), ABSENT, CORRUPT, DIVERGENT,
    ORPHAN or UNKNOWN.

    The exit code is 1 if an operator has to act, and 3 if something could not be
    checked.
    """
    # PySpark is needed from here on; other commands must not need it. Spark takes
    # seconds to start, so options and paths are checked first.
    from pystore.spark.plan.paths import find_stores  # noqa: PLC0415

    if budget is not None and into is None:
        raise click.UsageError("--budget needs --into DIR, which keeps the rounds")
    find_stores(stores)
    from pystore.spark.session import open_session  # noqa: PLC0415
    from pystore.spark.verify.executors import on_spark  # noqa: PLC0415
    from pystore.spark.verify.rounds import (  # noqa: PLC0415
        last_verified,
        next_round,
        oldest_first,
    )
    from pystore.spark.verify.run import verify_stores  # noqa: PLC0415

    code = DONE
    count = rounds or (None if continuous else 1)
    with open_session("pystore spark verify", master) as session:
        for index in itertools.count() if count is None else range(count):
            if index:
                time.sleep(pause)
            found = verify_stores(
                on_spark(session),
                stores,
                replicas=replicas,
                percent=sample,
                number=next_round(into) if into else index,
                choose=oldest_first(last_verified(into), budget)
                if into and budget
                else None,
            )
            code = _worst(code, _report(found, into, as_json=as_json))
    return code


def _worst(code: int, other: int) -> int:
    return BAD if BAD in (code, other) else max(code, other)


def _report(found: VerifyRun, into: Path | None, *, as_json: bool) -> int:
    """
    Writes and prints a round, and returns its exit code.
    """
    from pystore.spark.verify.output import write_output  # noqa: PLC0415
    from pystore.spark.verify.summary import (  # noqa: PLC0415
        is_bad,
        is_unfinished,
        summary_of,
    )

    report = summary_of(found)
    if into is not None:
        write_output(into, found)
    if as_json:
        echo_json(report)
    else:
        click.echo("\n".join(_lines(report, into)))
    return BAD if is_bad(found) else UNFINISHED if is_unfinished(found) else DONE


def _lines(report: dict[str, Any], into: Path | None) -> Iterator[str]:
    words = ", ".join(
        f"{count_text(n)} {word}" for word, n in report["verdicts"].items()
    )
    yield (
        f"round {report['round']}: {words or 'no segments'}; "
        f"{count_text(report['records'])} records, {size_text(report['checkedBytes'])} "
        f"of {len(report['stores'])} stores; "
        f"{rate_text(report['checkedBytes'], report['seconds'])}, "
        f"{seconds_text(report['seconds'])}"
    )
    for one in report["findings"]:
        where = one["store"]
        if one["name"]:
            where += f"/{COMMIT_LOG}/{one['name']}"
        elif one["segment"] is not None:
            where += f" segment {one['segment']}"
        yield f"  {one['verdict']}: {where}"
        yield from (f"    {line}" for line in one["evidence"])
    if into is not None:
        yield f"report: {into / 'report.html'}"
