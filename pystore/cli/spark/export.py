"""
``pystore spark export``: writes the new records of stores as Parquet.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pystore.cli.lib.exit_codes import BAD, DONE
from pystore.cli.lib.group import StorePath, json_option
from pystore.cli.lib.output import echo_json
from pystore.cli.spark import master_option
from pystore.errors import InvalidError
from pystore.spark.export.commit import COMPRESSIONS
from pystore.spark.export.resume import ExportBounds
from pystore.spark.plan.options import ON_DAMAGE
from pystore.spark.plan.paths import find_stores
from pystore.spark.plan.schema import choose_columns
from pystore.spark.session import open_session
from pystore.text import count_text, json_keys, rate_text, seconds_text, size_text

if TYPE_CHECKING:
    from pystore.spark.export.commit import Commit

__all__ = ["export"]

_EXAMPLE = """\b
Example: export new records of the orders topics, with bodies; run it again later
  pystore spark export /data/store --into /lake/messages --topic 'orders*' --bodies
"""


@click.command(short_help="Export new records as Parquet.", epilog=_EXAMPLE)
@click.argument("stores", metavar="STORE...", nargs=-1, required=True)
@click.option(
    "--into",
    required=True,
    metavar="DIR",
    type=StorePath(file_okay=False, resolve_path=True),
    help="Directory of the export: a new one, or one to continue. Every host that runs "
    "tasks must have it under this path.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="GLOB",
    help="Export only topics that match; may be given several times. By default all.",
)
@click.option(
    "--columns",
    metavar="NAMES",
    help="Columns of the files, separated by commas. By default all but bodies.",
)
@click.option("--bodies", is_flag=True, help="All columns, with bodies as stored.")
@click.option(
    "--from",
    "start",
    type=click.IntRange(0),
    default=0,
    metavar="OFFSET",
    help="Offset at which the first run begins. By default the start of the log.",
)
@click.option(
    "--to",
    "end",
    type=click.IntRange(0),
    metavar="OFFSET",
    help="Export only records that begin below OFFSET. By default all confirmed ones.",
)
@click.option(
    "--on-damage",
    type=click.Choice(ON_DAMAGE),
    default="fail",
    help="What to do at damaged bytes: fail, and export nothing; report and skip them, "
    "with exit code 1; or only skip them.",
)
@click.option(
    "--allow-gap",
    is_flag=True,
    help="Continue even if records were deleted, or the log was cut, since the last "
    "run.",
)
@click.option(
    "--compression",
    type=click.Choice(COMPRESSIONS),
    help="Compression of the Parquet files; by default zstd.",
)
@master_option
@json_option
def export(
    *,
    stores: tuple[str, ...],
    into: Path,
    topics: tuple[str, ...],
    columns: str | None,
    bodies: bool,
    start: int,
    end: int | None,
    on_damage: str,
    allow_gap: bool,
    compression: str | None,
    master: str | None,
    as_json: bool,
) -> int:
    """
    Write the records of each STORE into Parquet files, each record exactly once.

    STORE is a root or a glob over roots. A run begins where the last run into the same
    directory ended. It ends at the confirm offset of a replicated store, else at the
    end of the log. Stores may be in use. The files of a run, run=N/topic=T/day=D,
    appear in DIR all together or not at all. If a run is killed, run it again.

    The first run chooses columns, topics and compression for all runs.
    """
    if columns is not None and bodies:
        raise click.UsageError(
            "--bodies cannot be used with --columns: name the column body in --columns"
        )
    chosen = None if columns is None else _names(columns)
    find_stores(stores)  # before Spark starts, which takes seconds
    with open_session("pystore spark export", master) as session:
        # The session has checked that pyarrow is installed.
        from pystore.spark.export.job import export as run  # noqa: PLC0415
        from pystore.spark.export.run import ExportRequest  # noqa: PLC0415

        request = ExportRequest(
            stores=stores,
            into=into,
            columns=chosen,
            bodies=bodies,
            topics=topics or None,
            compression=compression,
            on_damage=on_damage,
            bounds=ExportBounds(start, end, allow_gap=allow_gap),
        )
        began = time.monotonic()
        commit = run(session, request)
        seconds = time.monotonic() - began
    if as_json:
        echo_json(_json(into, commit, seconds))
    else:
        click.echo("\n".join(_lines(into, commit, seconds, reports=on_damage)))
    return BAD if commit and commit.damages and on_damage == "report" else DONE


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    try:
        choose_columns(names, with_body=False, with_damage=False)
    except InvalidError as error:
        # Click reports it as it reports other invalid options.
        raise click.BadParameter(str(error), param_hint="--columns") from error
    return names


def _lines(
    into: Path, commit: Commit | None, seconds: float, *, reports: str
) -> list[str]:
    if commit is None:
        return [f"{into}: there are no new records"]
    read = sum(one.to_offset - one.from_offset for one in commit.ranges)
    size = sum(file.size for file in commit.files)
    lines = [
        f"{into}: run {commit.run}: {count_text(commit.records)} records in "
        f"{count_text(len(commit.files))} files, {size_text(size)} of "
        f"{size_text(read)} of log; {rate_text(read, seconds)}, "
        f"{seconds_text(seconds)}"
    ]
    lines += [
        f"  {one.store}: offsets {one.from_offset} to {one.to_offset}, "
        f"{count_text(one.records)} records"
        for one in commit.ranges
    ]
    lines += [f"  gap: {gap.store}: {gap.reason}" for gap in commit.gaps]
    if reports == "report":
        return lines + [
            f"  damage: {one.store}: offset {one.offset}: {one.text} "
            f"({count_text(one.size)} bytes skipped)"
            for one in commit.damages
        ]
    if commit.damages:
        size = sum(one.size for one in commit.damages)
        lines.append(
            f"  note: {count_text(len(commit.damages))} damaged ranges were skipped, "
            f"{size_text(size)}; run={commit.run}/_commit.json lists them"
        )
    return lines


def _json(into: Path, commit: Commit | None, seconds: float) -> dict[str, Any]:
    def several(values: tuple[Any, ...]) -> list[dict[str, object]]:
        return [json_keys(dataclasses.asdict(one)) for one in values]

    return {
        "into": str(into),
        "run": commit and commit.run,
        "records": commit.records if commit else 0,
        "files": len(commit.files) if commit else 0,
        "bytes": sum(file.size for file in commit.files) if commit else 0,
        "seconds": round(seconds, 6),
        "stores": several(commit.ranges) if commit else [],
        "gaps": several(commit.gaps) if commit else [],
        "damages": several(commit.damages) if commit else [],
    }
