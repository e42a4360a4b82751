"""
``pystore append``: appends one record for each line of standard input.
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
from pystore.core.options import AckName
from pystore.errors import InvalidError, PystoreError
from pystore.message.columns import Columns, gather_columns
from pystore.message.lines import Strings, read_lines, repeat
from pystore.message.message import Message
from pystore.store.commit_log import CommitLog
from pystore.store.maintenance import open_log
from pystore.text import count_text

__all__ = ["append"]

_EXAMPLE = """\b
Example: append a log file; a record counts when it is on disk
  pystore append /data/store --topic logs --ack leader-synced < access.log
"""


@dataclass(frozen=True, slots=True)
class AppendRoute:
    """
    The values that all records share.
    """

    topic: str
    queue_id: int
    keys: bytes
    tags: bytes
    ack: AckName

    def columns(self, lines: Strings) -> Columns:
        """
        Returns one record for each of *lines*.
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
    The acknowledged records, and why there are no more.

    Attributes:
        records: their number.
        body_bytes: the size of their bodies.
        first_offset: the offset of the first one; ``None`` if there is none.
        end_offset: the end of the last one.
        error: why the command ended early, or ``None``.
        exit_code: the exit code of the command.
    """

    records: int = 0
    body_bytes: int = 0
    first_offset: int | None = None
    end_offset: int | None = None
    error: str | None = None
    exit_code: int = DONE

    def text(self, where: str) -> str:
        """
        Returns one line for people.

        Args:
            where: store, topic and queue, as far as they are of interest.
        """
        line = f"{count_text(self.records)} records acknowledged in {where}"
        if self.first_offset is not None:
            line += f": offsets {self.first_offset} to {self.end_offset}"
        return line

    def as_json(self, topic: str, queue_id: int, ack: str) -> dict[str, Any]:
        """
        Returns the values of ``--json``.
        """
        return {
            "topic": topic,
            "queueId": queue_id,
            "ack": ack,
            "records": self.records,
            "bodyBytes": self.body_bytes,
            "firstOffset": self.first_offset,
            "endOffset": self.end_offset,
            "error": self.error,
        }


@click.command(short_help="Append each line of standard input.", epilog=_EXAMPLE)
@store_argument
@click.option("--topic", required=True, help="The topic of every record.")
@click.option(
    "--queue",
    "queue_id",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    show_default=True,
    metavar="N",
    help="The queue of every record.",
)
@click.option("--keys", default="", metavar="KEYS", help="Keys of every record.")
@click.option("--tags", default="", metavar="TAG", help="The tag of every record.")
@click.option(
    "--ack",
    type=click.Choice(["leader", "leader-synced"]),
    default="leader",
    show_default=True,
    help="When a record counts as stored: in the page cache (survives a killed "
    "process), or on disk (survives a power cut).",
)
@json_option
def append(
    *,
    store: Path,
    topic: str,
    queue_id: int,
    keys: str,
    tags: str,
    ack: AckName,
    as_json: bool,
) -> int:
    """
    Append one record to STORE for each line of standard input.

    The body is the line without its newline; a blank line is a record with an empty
    body. A missing or empty directory becomes a store.

    After Ctrl-C, or when the disk is full, every acknowledged record is stored, and no
    record is stored in part; the last line gives the number of records.
    """
    try:
        Message(topic, b"", queue_id=queue_id, keys=keys or None, tags=tags or None)
    except InvalidError as error:
        # A value that no record can hold is wrong usage, reported before the store is
        # opened.
        raise click.UsageError(str(error)) from error
    route = AppendRoute(topic, queue_id, os.fsencode(keys), os.fsencode(tags), ack)
    with open_log(store) as log:
        for line in opening_lines(log.recovery):
            click.echo(f"pystore: {store}: {line}", err=True)
        acked = _append_lines(log, route)
        recovery = recovery_json(log.recovery)
    if acked.error is not None:
        click.echo(f"pystore: {acked.error}", err=True)
    if as_json:
        found = acked.as_json(topic, queue_id, ack)
        echo_json({"store": str(store), **found, "recovery": recovery})
    else:
        line = acked.text(f"{store}, topic {topic}, queue {queue_id}")
        line += " (the rest is not stored)" if acked.error else ""
        click.echo(line, err=acked.exit_code != DONE)
    return acked.exit_code


def _append_lines(log: CommitLog, route: AppendRoute) -> AckCount:
    acked = AckCount()
    descriptor = sys.stdin.fileno()
    read_bytes = 0
    with (
        interruptible() as signals,
        ProgressBar("append", _size(descriptor)) as progress,
    ):
        chunks = read_lines(lambda size: signals.read(descriptor, size))
        for lines in chunks:
            try:
                _append_chunk(log, route, lines, acked)
            except PystoreError as error:
                # No more records can be appended; those appended are still reported.
                acked.error = f"line {acked.records + 1}: {error_line(error)}"
                acked.exit_code = UNFINISHED
                break
            read_bytes += len(lines[1]) + len(lines[0]) - 1
            progress.reach(read_bytes)
        else:
            if signals.signal_number:
                acked.error = "interrupted"
                acked.exit_code = signals.exit_code
    return acked


def _append_chunk(
    log: CommitLog, route: AppendRoute, lines: Strings, acked: AckCount
) -> None:
    before = log.end_offset
    try:
        appended = log.append_columns(route.columns(lines), ack=route.ack)
    except PystoreError as error:
        # The first records of the chunk may be appended.
        if error.records_appended:
            acked.records += error.records_appended
            acked.body_bytes += int(lines[0][error.records_appended])
            acked.end_offset = log.end_offset
            if acked.first_offset is None:
                acked.first_offset = before
        raise
    acked.records += appended.count
    acked.body_bytes += len(lines[1])
    acked.end_offset = appended.end
    if acked.first_offset is None:
        acked.first_offset = appended.offset


def _size(descriptor: int) -> int:
    """
    The size of the input in bytes; 0: unknown.
    """
    status = os.fstat(descriptor)
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
