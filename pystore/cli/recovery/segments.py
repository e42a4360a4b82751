"""
``pystore recovery``: commands about segments in the queue.
"""

from __future__ import annotations

from pathlib import Path

import click

from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.queue_view import read_contents
from pystore.autorecovery.segment_key import SegmentKey
from pystore.cli.lib.durations import span_text, utc_text
from pystore.cli.lib.exit_codes import BAD, DONE
from pystore.cli.lib.group import json_option
from pystore.cli.lib.output import echo_json, lines_text, pairs_text, table_text
from pystore.cli.recovery.records import (
    dry_run_option,
    open_queue,
    open_records,
    records_options,
    segment_argument,
    tell_change,
)
from pystore.cli.recovery.segment_text import (
    dead_lines,
    dead_row,
    mark_pairs,
    mark_row,
    missing_text,
)
from pystore.clocks import wall_ms
from pystore.errors import InvalidError
from pystore.text import count_text, size_text

__all__ = ["dead", "first", "forget", "list_segments", "retry", "show"]


@click.command(
    "list",
    short_help="List the segments that lack a good copy.",
    epilog="\b\nExample: those of which the copy of broker 2 is missing\n"
    "  pystore recovery list --records /data/records --missing 2\n",
)
@records_options
@click.option(
    "--missing",
    type=click.IntRange(1),
    metavar="ID",
    help="Only those of which the copy of this broker is missing.",
)
@click.option(
    "--not-missing",
    type=click.IntRange(1),
    metavar="ID",
    help="Only those of which it is not.",
)
@click.option("--set", "within", metavar="CLUSTER/SET", help="Only those of this set.")
@json_option
def list_segments(
    *,
    records: str | None,
    config: Path | None,
    missing: int | None,
    not_missing: int | None,
    within: str | None,
    as_json: bool,
) -> int:
    """
    Print the segments in the queue in the order of repair, the most urgent first. The
    exit code is 1 if a record cannot be read.
    """
    if within is not None and within.count("/") != 1:
        raise click.UsageError(f"--set {within} is not CLUSTER/SET")
    with open_records(records, config) as store:
        contents = read_contents(store)
    found = {
        key: mark
        for key, mark in sorted(
            contents.marks.items(), key=lambda one: (one[1].urgency, one[0])
        )
        if (missing is None or missing in mark.missing)
        and (not_missing is None or not_missing not in mark.missing)
        and (within is None or within == key.set_text)
    }
    now_ms = wall_ms()
    if as_json:
        rows = [mark_row(k, m, contents.claims.get(k)) for k, m in found.items()]
        echo_json({"segments": rows, "damaged": list(contents.damaged)})
    else:
        header = (
            "segment", "priority", "missing", "size", "marked", "age", "tries",
            "next try", "worker",
        )  # fmt: skip
        lines = [
            (
                key.text,
                str(int(mark.priority)),
                missing_text(mark),
                size_text(mark.size) if mark.size else "-",
                utc_text(mark.first_ms),
                span_text(now_ms - mark.first_ms),
                str(mark.tries),
                f"in {span_text(mark.not_before_ms - now_ms)}"
                if mark.not_before_ms > now_ms
                else "at once",
                contents.claims.get(key, "-") or "unknown",
            )
            for key, mark in found.items()
        ]
        parts = [table_text(header, lines)] if lines else []
        parts.append(f"{count_text(len(found))} segments")
        click.echo("\n\n".join(parts))
    return _told(contents.damaged, as_json=as_json)


@click.command(
    short_help="Show all that is known of a segment.",
    epilog="\b\nExample:\n  pystore recovery show --records /data/records "
    "DefaultCluster/broker-a/1073741824\n",
)
@segment_argument
@records_options
@json_option
def show(
    segment: SegmentKey, *, records: str | None, config: Path | None, as_json: bool
) -> int:
    """
    Print the mark of SEGMENT, which copies are missing and why, when it is tried again,
    who repairs it, and if it is dead, the evidence.
    """
    with open_queue(records, config) as queue:
        mark, worker = queue.get(segment), queue.holder(segment)
        grave = queue.dead().get(segment)
    now_ms = wall_ms()
    if as_json:
        echo_json(
            {
                "segment": segment.text,
                "mark": None if mark is None else mark_row(segment, mark, worker),
                "dead": None if grave is None else dead_row(segment, grave),
            }
        )
        return DONE
    lines = []
    if mark is not None:
        pairs = [("segment", segment.text), *mark_pairs(mark, worker, now_ms)]
        lines.append(pairs_text(pairs))
    if grave is not None:
        lines.append(lines_text(dead_lines(segment, grave, now_ms)))
    if not lines:
        lines.append(f"{segment.text}: neither in the queue nor dead")
    click.echo("\n\n".join(lines))
    return DONE


@click.command(
    short_help="List segments without a good copy.",
    epilog="\b\nExample:\n  pystore recovery dead --records /data/records\n",
)
@records_options
@json_option
def dead(*, records: str | None, config: Path | None, as_json: bool) -> int:
    """
    Print the segments of which no good copy was found, with what was found at each
    replica. They come back when a copy is reported, or with `pystore recovery retry`.
    The exit code is 1 if a record cannot be read.
    """
    with open_records(records, config) as store:
        contents = read_contents(store)
    found, now_ms = contents.dead, wall_ms()
    if as_json:
        rows = [dead_row(key, one) for key, one in found.items()]
        echo_json({"segments": rows, "damaged": list(contents.damaged)})
    else:
        lines = [one for k in found for one in dead_lines(k, found[k], now_ms)]
        click.echo(lines_text([*lines, f"{count_text(len(found))} segments"]))
    return _told(contents.damaged, as_json=as_json)


def _told(damaged: tuple[str, ...], *, as_json: bool) -> int:
    if not as_json:
        for line in damaged:
            click.echo(f"pystore: {line}", err=True)
    return BAD if damaged else DONE


@click.command(
    short_help="Try a dead or resting segment at once.",
    epilog="\b\nExample: after a disk with a good copy came back\n  pystore recovery "
    "retry --records /data/records DefaultCluster/broker-a/1073741824\n",
)
@segment_argument
@records_options
@dry_run_option
@json_option
def retry(
    segment: SegmentKey,
    *,
    records: str | None,
    config: Path | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """
    Move the dead SEGMENT back to the queue, or end the rest of one that failed. Its
    tries begin at 0 again.
    """
    with open_queue(records, config) as queue:
        was_dead = segment in queue.dead()
        if not was_dead and queue.get(segment) is None:
            raise _absent(segment, "neither in the queue nor dead")
        if not dry_run:
            queue.retry(segment)
    text = "it is no longer dead, and is tried" if was_dead else "it is tried"
    row = {"segment": segment.text, "wasDead": was_dead}
    tell_change(
        [f"{segment.text}: {text} at once"], row, as_json=as_json, dry_run=dry_run
    )
    return DONE


@click.command(
    short_help="Put a segment in front of all others.",
    epilog="\b\nExample:\n  pystore recovery first --records /data/records "
    "DefaultCluster/broker-a/1073741824\n",
)
@segment_argument
@records_options
@dry_run_option
@json_option
def first(
    segment: SegmentKey,
    *,
    records: str | None,
    config: Path | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """
    Let workers take SEGMENT before all others, and without a rest.
    """
    with open_queue(records, config) as queue:
        if queue.get(segment) is None:
            raise _absent(segment, "not in the queue")
        if not dry_run:
            queue.first(segment)
    tell_change(
        [f"{segment.text}: it is repaired before all others"],
        {"segment": segment.text},
        as_json=as_json,
        dry_run=dry_run,
    )
    return DONE


@click.command(
    short_help="Remove all that is known of a segment.",
    epilog="\b\nExample: a dead segment whose loss is accepted\n  pystore recovery "
    "forget --records /data/records DefaultCluster/broker-a/1073741824\n",
)
@segment_argument
@records_options
@dry_run_option
@json_option
def forget(
    segment: SegmentKey,
    *,
    records: str | None,
    config: Path | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """
    Remove the mark of SEGMENT and its record among the dead ones, also if they cannot
    be read. Copies stay as they are; if one is still missing, an audit marks SEGMENT
    again.
    """
    with open_records(records, config) as store:
        keys = (segment.mark, segment.dead)
        found = [key for key in keys if store.scan(key)]
        if not found:
            raise _absent(segment, "neither in the queue nor dead")
        if not dry_run:
            UnderReplicationQueue(store, wall_ms).forget(segment)
    tell_change(
        [f"{segment.text}: {key} is removed" for key in found],
        {"segment": segment.text, "removed": found},
        as_json=as_json,
        dry_run=dry_run,
    )
    return DONE


def _absent(segment: SegmentKey, what: str) -> InvalidError:
    return InvalidError(
        f"{segment.text} is {what}: `pystore recovery list` and `dead` name the "
        "segments that are"
    )
