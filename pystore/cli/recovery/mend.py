"""
``pystore recovery mend``: a copy of a log is repaired from other copies, while a broker
has it open or after it was closed.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import click

from pystore.broker.control_client import ControlClient
from pystore.cli.lib.exit_codes import BAD, DONE
from pystore.cli.lib.group import json_option, store_argument
from pystore.cli.lib.output import echo_json, lines_text
from pystore.cli.lib.peer_tls import peer_tls, peer_tls_options
from pystore.cli.lib.sizes import parse_size
from pystore.errors import InvalidError, LockedError
from pystore.fs.layout import require_store
from pystore.segments.copy import LogCopy
from pystore.segments.mend_plan import plan_mending
from pystore.segments.mend_report import progress_rows
from pystore.segments.mending import MendProgress, kept_directory, mend_closed
from pystore.segments.open_copies import open_copies
from pystore.segments.pace import Pace
from pystore.segments.store_copy import StoreCopy

__all__ = ["mend"]

_POLL_S = 0.1

_EXAMPLE = """\b
Example: what another copy would mend, then mend it
  pystore recovery mend /data/store --from /copy/store --dry-run
  pystore recovery mend /data/store --from /copy/store
"""

_TEXTS = {
    "patch": "write bad blocks in place",
    "install": "put a whole file in its place",
    "fill": "put it before the first one",
}


@click.command(short_help="Repair a copy of a log from others.", epilog=_EXAMPLE)
@store_argument
@click.option(
    "--from",
    "sources",
    required=True,
    multiple=True,
    metavar="DIR|HOST:PORT",
    help="Another copy of the log: a store, or the address of `pystore recovery "
    "serve`; may be given several times.",
)
@click.option(
    "--segment",
    type=click.IntRange(0),
    metavar="OFFSET",
    help="Only the segment with this first offset, or, below the log, down to it.",
)
@click.option(
    "--rate",
    callback=parse_size,
    metavar="SIZE",
    help="Move at most so many bytes a second, such as 50M; by default there is no "
    "limit. The same command again with another rate changes that of a broker.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done.")
@click.option(
    "--socket",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The control socket of the broker that has STORE open; by default STORE.sock "
    "beside it.",
)
@peer_tls_options
@json_option
def mend(
    *,
    store: Path,
    sources: tuple[str, ...],
    segment: int | None,
    rate: int | None,
    dry_run: bool,
    socket: Path | None,
    as_json: bool,
    **tls: str,
) -> int:
    """
    Compare each full segment of STORE with its seal, and repair what is bad, missing or
    below the first one from other copies of the log.

    A bad block is written in place, a missing, short or unreadable file is replaced,
    and a log that began late is filled downwards. Each block is compared with its
    digest before it is written, and read again from the disk. If a broker has STORE
    open, it does the work, and goes on to serve. Files that are replaced are kept
    beside STORE. The exit code is 1 if a segment is left that no copy repairs.
    """
    for source in sources:
        if store.exists() and os.path.isdir(source) and store.samefile(source):
            raise click.UsageError(f"{source} is STORE: name another store")
    require_store(store)
    with open_copies(sources, peer_tls(**tls)) as copies:
        if dry_run:
            progress = MendProgress()
            progress.begin(plan_mending(StoreCopy(store), copies, segment))
            rows = progress_rows(progress)
        else:
            rows = _mended(store, copies, segment, socket, rate or 0)
    if as_json:
        echo_json({"store": str(store), "isDryRun": dry_run, **rows})
    else:
        click.echo(lines_text(_lines(store, rows, is_dry_run=dry_run)))
    return BAD if rows["unmended"] else DONE


def _mended(
    store: Path,
    copies: list[LogCopy],
    segment: int | None,
    socket: Path | None,
    rate: int,
) -> dict[str, Any]:
    """
    Repairs the store here, or lets the broker do it that has it open; returns the rows
    of the plan.
    """
    path = socket or store.with_name(f"{store.name}.sock")
    try:
        progress = MendProgress(pace=Pace(rate))
        done = mend_closed(store, copies, kept_directory(store), segment, progress)
    except LockedError as error:
        # A broker has it open, or a program without a control socket.
        if not path.exists():
            raise LockedError(
                f"{error}; {path} is no control socket of that process: name it with "
                "--socket, or stop the process",
                path=str(store),
            ) from error
    else:
        return progress_rows(done)
    with ControlClient(path) as client:
        names = [
            one["node"]
            for one in client.status()
            if Path(one["store"]).exists() and Path(one["store"]).samefile(store)
        ]
    if not names:
        raise InvalidError(f"{path}: the broker there has no node with {store}")
    with ControlClient(path, names[0]) as client:
        names = [
            os.path.abspath(one.name) if os.path.isdir(one.name) else one.name
            for one in copies
        ]
        job = client.mend(names, segment, rate)
        while not (found := client.mend_status(job))["isEnded"]:
            time.sleep(_POLL_S)
    if found["problem"]:
        raise InvalidError(found["problem"])
    return {name: found[name] for name in ("steps", "unmended")}


def _lines(store: Path, rows: dict[str, Any], *, is_dry_run: bool) -> list[str]:
    steps, left = rows["steps"], rows["unmended"]
    if not steps and not left:
        return [f"{store}: nothing to repair"]
    verb = "to repair" if is_dry_run else "repaired"
    done = [one for one in steps if one["isDone"] or is_dry_run]
    lines = [f"{store}: {len(done)} segments {verb}, {len(left)} left"]
    for one in done:
        what = _TEXTS[one["action"]]
        if one["action"] == "patch":
            what += f" ({len(one['blocks'])})"
        lines.append(f"  {one['segment']:020d}: {what}, from {one['from'][0]}")
        lines.append(f"     because {one['reason']}")
    for one in left:
        lines.append(f"  {one['segment']:020d}: {one['reason']}; no copy repairs it")
        lines += [f"     not from {reason}" for reason in one["refusals"]]
    if is_dry_run and steps:
        lines.append("  nothing was changed")
    return lines
