"""
``pystore verify``: checks every byte of a store.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from pystore.cli.lib.exit_codes import BAD, DONE, UNFINISHED, error_line
from pystore.cli.lib.group import StorePath, json_option
from pystore.cli.lib.output import echo_json, lines_text, verdict_text
from pystore.cli.lib.progress import ProgressBar
from pystore.errors import PystoreError
from pystore.fs.layout import META_NAME
from pystore.rocketmq.unread import unread_parts
from pystore.text import count_text, rate_text, seconds_text, size_text
from pystore.verify import Damage, StoreReport, verify_store
from pystore.verify.coverage import UNCOVERED_FIELDS

__all__ = ["verify"]

_JOBS_MAX = 4

_EXAMPLE = """\b
Example: two stores, with four threads, as JSON
  pystore verify --jobs 4 --json /data/a /data/b
"""


@click.command(short_help="Check every record, seal and queue.", epilog=_EXAMPLE)
@click.argument(
    "stores",
    metavar="STORE...",
    nargs=-1,
    required=True,
    type=StorePath(),
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Threads; each scans one segment at a time. The default is one for each "
    f"processor, at most {_JOBS_MAX}.",
)
@json_option
def verify(*, stores: tuple[Path, ...], jobs: int | None, as_json: bool) -> int:
    """
    Check every record, seal and consume queue of each STORE, and change nothing.

    Records: structure, checksums, and the offset that each record contains. Seals:
    every byte of a sealed segment. Queues: every entry names the right record. For
    records without a property CRC, a line gives the number of bytes that no checksum
    covers. What pystore does not read, such as RocketMQ's consumequeue_ext, is named.

    A torn tail after the end of the log is not damage: every crash leaves one, and
    opening cuts it. After damage the check continues, and reports the bytes that it
    skipped. The exit code is 1 if any store is damaged; else 3 if the system did not
    show a segment, of which nothing is known.
    """
    jobs = jobs or min(os.cpu_count() or 1, _JOBS_MAX)
    reports: list[dict[str, Any]] = []
    code = DONE
    for store in stores:
        try:
            report, unread = _verify(store, jobs), unread_parts(store)
        except PystoreError as error:
            # The other stores are checked nevertheless.
            click.echo(f"pystore: {error_line(error)}", err=True)
            reports.append({"store": str(store), "verdict": None, "error": str(error)})
            code = code or UNFINISHED
            continue
        if report.damages:
            code = BAD
        elif report.unknown:
            code = code or UNFINISHED
        reports.append(_json(report, unread))
        if not as_json:
            click.echo(lines_text(_lines(report, unread)))
    if as_json:
        echo_json({"stores": reports})
    return code


def _verify(store: Path, jobs: int) -> StoreReport:
    with ProgressBar(f"verify {store.name}") as progress:
        return verify_store(store, jobs, progress.reach)


def _lines(report: StoreReport, unread: list[str]) -> list[str]:
    queues = report.queues
    rate = rate_text(report.scanned_bytes, report.seconds)
    verdict = verdict_text(
        report.verdict, is_good=not (report.damages or report.unknown)
    )
    first = (
        f"{report.path}: {verdict}: {count_text(report.records)} records, "
        f"{size_text(report.scanned_bytes)} in {report.segments} segments, offsets "
        f"{report.min_offset} to {report.end_offset}; {rate}, "
        f"{seconds_text(report.seconds)}"
    )
    lines = [first]
    if report.seals or queues.queues:
        lines.append(
            f"  compared: {count_text(report.seals)} seals, "
            f"{count_text(queues.entries)} entries of {queues.queues} queues"
        )
    lines += [f"  note: {part}" for part in unread]
    if queues.other_tags:
        lines.append(
            f"  note: {count_text(queues.other_tags)} entries have another tags code "
            "than their record"
        )
    # A log of pystore may have no queues; RocketMQ always builds them.
    has_queues = queues.queues or not Path(report.path, META_NAME).exists()
    if queues.missing and has_queues:
        lines.append(
            f"  note: {count_text(queues.missing)} records have no consume queue entry"
        )
    if report.unproved:
        lines.append(
            f"  note: {count_text(report.unproved)} records have no property CRC: "
            f"no checksum covers {size_text(report.uncovered_bytes)} of them "
            f"({', '.join(UNCOVERED_FIELDS)})"
        )
    if report.torn_bytes:
        lines.append(
            f"  torn: {count_text(report.torn_bytes)} bytes after offset "
            f"{report.end_offset}: {report.torn_reason}; opening cuts them"
        )
    lines += [f"  unknown: {_damage_text(one)}" for one in report.unknown]
    lines += [f"  damage: {_damage_text(damage)}" for damage in report.damages]
    if report.damages:
        lines.append(f"  to do: `pystore doctor {report.path}` shows what heals it")
    return lines


def _damage_text(damage: Damage) -> str:
    text = damage.path
    if damage.offset is not None:
        text += f": offset {damage.offset}"
    # The reason names the place as well, for callers that have nothing else.
    reason = damage.reason.removeprefix(f"{damage.path}: ")
    text += f": {reason.removeprefix(f'record at offset {damage.offset}: ')}"
    if damage.skipped_bytes:
        text += f" ({count_text(damage.skipped_bytes)} bytes skipped)"
    return text


def _json(report: StoreReport, unread: list[str]) -> dict[str, Any]:
    queues = report.queues
    return {
        "store": report.path,
        "verdict": report.verdict,
        "minOffset": report.min_offset,
        "endOffset": report.end_offset,
        "segments": report.segments,
        "records": report.records,
        "scannedBytes": report.scanned_bytes,
        "seconds": round(report.seconds, 6),
        "unprovedRecords": report.unproved,
        "uncoveredBytes": report.uncovered_bytes,
        "uncoveredFields": list(UNCOVERED_FIELDS) if report.unproved else [],
        "seals": report.seals,
        "queues": queues.queues,
        "queueEntries": queues.entries,
        "missingEntries": queues.missing,
        "otherTagsEntries": queues.other_tags,
        "unread": unread,
        "tornBytes": report.torn_bytes,
        "tornReason": report.torn_reason,
        "damages": [
            {
                "path": damage.path,
                "offset": damage.offset,
                "reason": damage.reason,
                "skippedBytes": damage.skipped_bytes,
                "part": damage.part,
                "basis": list(damage.basis),
                "endOffset": damage.end,
                "heals": list(damage.heals),
            }
            for damage in report.damages
        ],
        "unknown": [
            {"path": one.path, "offset": one.offset, "reason": one.reason}
            for one in report.unknown
        ],
        "error": None,
    }
