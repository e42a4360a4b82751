"""
``pystore salvage``: takes whole records out of a damaged store.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import click

from pystore.cli.lib.exit_codes import BAD, DONE
from pystore.cli.lib.group import StorePath, StoreText, store_argument
from pystore.cli.lib.output import json_line, lines_text, verdict_text
from pystore.cli.lib.progress import ProgressBar
from pystore.cli.lib.sizes import parse_size
from pystore.errors import InvalidError
from pystore.fs.atomic import storage_error, sync_directory
from pystore.message.record_lines import RecordLines
from pystore.salvage import SalvageReport, salvage_records, salvage_store
from pystore.salvage.records import RecordBlock
from pystore.text import count_text, size_text

__all__ = ["salvage"]

_SHOWN = 20
_STREAM = "-"

_EXAMPLE = """\b
Examples: a new store of all that is whole; the records that an opening saved
  pystore salvage /data/store --into /data/salvaged
  pystore salvage /data/store.lost-00000000000001048576 --json records.jsonl
"""


@click.command(short_help="Take whole records out of a damaged store.", epilog=_EXAMPLE)
@store_argument
@click.option(
    "--into",
    type=StorePath(),
    metavar="STORE2",
    help="Make this new store: queue offsets stay, offsets in the log are new.",
)
@click.option(
    "--json",
    "lines_to",
    type=StoreText(),
    metavar="FILE",
    help="Write JSON lines with bodies to this new file instead, as `pystore dump "
    "--bodies` does; - is the standard output.",
)
@click.option(
    "--report",
    "report_to",
    type=StoreText(),
    metavar="FILE",
    help="Write the report as one JSON object to FILE; - is the standard output.",
)
@click.option(
    "--segment-size",
    callback=parse_size,
    metavar="SIZE",
    help="Of the new store, such as 64m; the default is that of the source, else 1g.",
)
@click.option(
    "--queue-file-size",
    callback=parse_size,
    metavar="SIZE",
    help="Of the new store's queue files; the default is that of the source, else "
    "RocketMQ's.",
)
def salvage(
    *,
    store: Path,
    into: Path | None,
    lines_to: str | None,
    report_to: str | None,
    segment_size: int | None,
    queue_file_size: int | None,
) -> int:
    """
    Take every whole record out of STORE, into a new store or as JSON lines.

    STORE is a damaged store, also one that refuses writers, with missing or short
    segments; or a .lost- directory with the bytes that an opening saved. It is only
    read. The new store has an identity of its own and no epochs.

    If records of one queue have the same queue offset, the new store gets the first of
    them, and the others are listed; JSON lines have all of them. The exit code is 1 if
    bytes or records were left behind.
    """
    if (into is None) == (lines_to is None):
        raise click.UsageError("give one of --into STORE2 and --json FILE")
    if lines_to == _STREAM == report_to:
        raise click.UsageError("records and report cannot both go to standard output")
    with ProgressBar(f"salvage {store.name}") as progress:
        try:
            if into is not None:
                report = salvage_store(
                    store,
                    into,
                    segment_size=segment_size,
                    queue_file_bytes=queue_file_size,
                    progress=progress.reach,
                )
            else:
                report = _write_lines(store, str(lines_to), progress)
        except InvalidError as error:
            # A wrong target or size is wrong usage.
            raise click.UsageError(str(error)) from error
    target = str(into or lines_to)
    if report_to == _STREAM:
        click.echo(json_line(_json(store, target, report)))
    else:
        text = lines_text(_lines(store, target, report))
        click.echo(text, err=lines_to == _STREAM)
    if report_to not in (None, _STREAM):
        line = json_line(_json(store, target, report)) + "\n"
        Path(str(report_to)).write_text(line, encoding="utf-8")
    return DONE if report.is_complete else BAD


def _write_lines(store: Path, name: str, progress: ProgressBar) -> SalvageReport:
    """
    Writes the records to a file, which gets its name when it is complete.
    """
    with ExitStack() as stack:
        if name == _STREAM:
            return _print_lines(store, sys.stdout.buffer, progress)
        path = Path(name)
        draft = path.with_name(path.name + ".unfinished")
        if path.exists():
            raise InvalidError(f"{path} exists: give the name of a new file")
        stack.callback(draft.unlink, missing_ok=True)
        try:
            with draft.open("wb") as file:
                report = _print_lines(store, file, progress)
                file.flush()
                os.fsync(file.fileno())
            draft.rename(path)
        except OSError as error:
            # The error of the system may not name the path.
            raise storage_error("write", path, error) from error
        sync_directory(path.absolute().parent)
    return report


def _print_lines(store: Path, file: BinaryIO, progress: ProgressBar) -> SalvageReport:
    lines = RecordLines(bodies=True)

    def take(block: RecordBlock) -> None:
        for chunk in lines.chunks(block.rows, block.data, block.offset):
            file.write(chunk)

    return salvage_records(store, take, progress=progress.reach)


def _lines(store: Path, target: str, report: SalvageReport) -> list[str]:
    verdict = verdict_text(
        f"{count_text(report.records)} records taken", is_good=report.is_complete
    )
    lines = [f"{store}: {verdict}, {size_text(report.record_bytes)}, into {target}"]
    if report.unproved:
        lines.append(
            f"  unproved: {count_text(report.unproved)} records have no property CRC "
            "that covers topic and properties"
        )
    for shown in report.left[:_SHOWN]:
        lines.append(
            f"  left behind: {shown.path}: offset {shown.offset}, "
            f"{count_text(shown.size)} bytes: {shown.reason}"
        )
    if report.left_ranges > _SHOWN:
        lines.append(
            f"  left behind: {count_text(report.left_ranges)} ranges in all, "
            f"{size_text(report.left_bytes)} (--report lists more)"
        )
    for record in report.rejected[:_SHOWN]:
        lines.append(
            f"  not taken: {record.path}: record at offset {record.offset}: "
            f"{record.topic}, queue {record.queue_id}, queue offset "
            f"{record.queue_offset}: {record.reason}"
        )
    rejected = report.repeated + report.impossible
    if rejected:
        lines.append(
            f"  not taken: {count_text(report.repeated)} records with a repeated queue "
            f"offset, {count_text(report.impossible)} that no queue can hold: --json "
            "takes them"
        )
    return lines


def _json(store: Path, target: str, report: SalvageReport) -> dict[str, Any]:
    return {
        "store": str(store),
        "target": target,
        "records": report.records,
        "recordBytes": report.record_bytes,
        "unprovedRecords": report.unproved,
        "endOffset": report.end_offset,
        "leftRanges": report.left_ranges,
        "leftBytes": report.left_bytes,
        "left": [
            {"path": one.path, "offset": one.offset, "size": one.size}
            | {"reason": one.reason}
            for one in report.left
        ],
        "repeatedRecords": report.repeated,
        "impossibleRecords": report.impossible,
        "rejected": [
            {
                "path": one.path,
                "offset": one.offset,
                "topic": one.topic,
                "queueId": one.queue_id,
                "queueOffset": one.queue_offset,
                "reason": one.reason,
            }
            for one in report.rejected
        ],
    }
