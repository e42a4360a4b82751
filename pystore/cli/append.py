"""
``pystore append``: one record for each line of standard input.
"""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pystore.cli.lib.exit_codes import DONE, UNFINISHED, error_line
from pystore.cli.lib.group import json_option, store_argument
from pystore.cli.lib.interrupt import interruptible
from pystore.cli.lib.output import echo_json
from pystore.cli.lib.progress import ProgressBar
from pystore.cli.lib.recovery_text import opening_lines, recovery_json
from pystore.errors import InvalidError, PystoreError
from pystore.message.columns import Columns, gather_columns
from pystore.message.lines import Strings, read_lines, repeat
from pystore.message.message import Message
from pystore.store.commit_log import CommitLog
from pystore.store.maintenance import open_log
from pystore.text import count_text

__all__ = ["append"]

_EXAMPLE = """\b
Example: a log file, every record on disk before it counts
  pystore append /data/store --topic logs --ack leader-synced < access.log
"""


@dataclass(frozen=True, slots=True)
class AppendRoute:
    """
    What all records share.
    """

    topic: str
    queue_id: int
    keys: bytes
    tags: bytes
    ack: str

    def columns(self, lines: Strings) -> Columns:
        """
        Returns the records that *lines* become.
        """
        count = len(lines[0]) - 1
        return gather_columns(
            self.topic,
            lines,
            keys=repeat(self.keys, count) if self.keys else None,
            tags=repeat(self.tags, count) if self.tags else None,
            queue_id=self.queue_id,
        )


@dataclass(slots=True)
class AckCount:
    """
    What was acknowledged, and why no more.

    Attributes:
        records: how many.
        body_bytes: of them.
        first_offset: of the first one, ``None`` before it.
        end_offset: of the last one.
        error: why it ended early, or ``None``.
        exit_code: of the command.
    """

    records: int = 0
    body_bytes: int = 0
    first_offset: int | None = None
    end_offset: int | None = None
    error: str | None = None
    exit_code: int = DONE


@click.command(short_help="Append each line of standard input.", epilog=_EXAMPLE)
@store_argument
@click.option("--topic", required=True, help="Of all records.")
@click.option(
    "--queue",
    "queue_id",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    show_default=True,
    metavar="N",
    help="Of the topic.",
)
@click.option("--keys", default="", metavar="KEYS", help="Keys of every record.")
@click.option("--tags", default="", metavar="TAG", help="The tag of every record.")
@click.option(
    "--ack",
    type=click.Choice(["leader", "leader-synced"]),
    default="leader",
    show_default=True,
    help="What counts as stored: in the page cache (survives a killed process), or "
    "on disk (survives a power cut).",
)
@json_option
def append(
    *,
    store: Path,
    topic: str,
    queue_id: int,
    keys: str,
    tags: str,
    ack: str,
    as_json: bool,
) -> int:
    """
    Append one record to STORE for each line of standard input.

    The body is the line without its newline; a blank line is a record with an empty
    body. A missing or empty directory becomes a store.

    After Ctrl-C, or when the disk is full, what was acknowledged is there and the
    rest is not half there; the last line says how many records that is.
    """
    try:
        Message(topic, b"", queue_id=queue_id, keys=keys or None, tags=tags or None)
    except InvalidError as error:
        # What no record could hold is wrong usage, before anything is opened.
        raise click.UsageError(str(error)) from error
    route = AppendRoute(topic, queue_id, os.fsencode(keys), os.fsencode(tags), ack)
    with open_log(store) as log:
        for line in opening_lines(log.recovery):
            click.echo(f"pystore: {store}: {line}", err=True)
        tally = _append_lines(log, route)
        recovery = recovery_json(log.recovery)
    if tally.error is not None:
        click.echo(f"pystore: {tally.error}", err=True)
    if as_json:
        echo_json({"store": str(store), **_json(route, tally), "recovery": recovery})
    else:
        click.echo(_text(store, route, tally), err=tally.exit_code != DONE)
    return tally.exit_code


def _append_lines(log: CommitLog, route: AppendRoute) -> AckCount:
    tally = AckCount()
    descriptor = sys.stdin.fileno()
    read_bytes = 0
    with (
        interruptible() as signals,
        ProgressBar("append", _size(descriptor)) as progress,
    ):
        chunks = read_lines(lambda size: signals.read(descriptor, size))
        for lines in chunks:
            try:
                _append_chunk(log, route, lines, tally)
            except PystoreError as error:
                # Nothing more can be appended; what is there is told all the same.
                tally.error = f"line {tally.records + 1}: {error_line(error)}"
                tally.exit_code = UNFINISHED
                break
            read_bytes += len(lines[1]) + len(lines[0]) - 1
            progress.reach(read_bytes)
        else:
            if signals.signal_number:
                tally.error = "interrupted"
                tally.exit_code = signals.exit_code
    return tally


def _append_chunk(
    log: CommitLog, route: AppendRoute, lines: Strings, tally: AckCount
) -> None:
    before = log.end_offset
    try:
        appended = log.append_columns(route.columns(lines), ack=route.ack)
    except PystoreError as error:
        # The first records of the chunk may be in.
        if error.records_appended:
            tally.records += error.records_appended
            tally.body_bytes += int(lines[0][error.records_appended])
            tally.end_offset = log.end_offset
            if tally.first_offset is None:
                tally.first_offset = before
        raise
    tally.records += appended.count
    tally.body_bytes += len(lines[1])
    tally.end_offset = appended.end
    if tally.first_offset is None:
        tally.first_offset = appended.offset


def _size(descriptor: int) -> int:
    """
    How much there is to read; 0: nobody knows.
    """
    status = os.fstat(descriptor)
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _text(store: Path, route: AppendRoute, tally: AckCount) -> str:
    where = f"{store}, topic {route.topic}, queue {route.queue_id}"
    line = f"{count_text(tally.records)} records acknowledged in {where}"
    if tally.first_offset is not None:
        line += f": offsets {tally.first_offset} to {tally.end_offset}"
    return line + (" (the rest is not there)" if tally.error else "")


def _json(route: AppendRoute, tally: AckCount) -> dict[str, Any]:
    return {
        "topic": route.topic,
        "queueId": route.queue_id,
        "ack": route.ack,
        "records": tally.records,
        "bodyBytes": tally.body_bytes,
        "firstOffset": tally.first_offset,
        "endOffset": tally.end_offset,
        "error": tally.error,
    }
