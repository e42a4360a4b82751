"""
``pystore compare``: compares two stores byte by byte.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pystore.cli.lib.exit_codes import BAD, DONE, UNFINISHED
from pystore.cli.lib.group import StorePath, json_option, store_argument
from pystore.cli.lib.output import echo_json, lines_text, verdict_text
from pystore.cli.lib.progress import ProgressBar
from pystore.compare import CompareReport, LogDifference, SideState, compare_stores
from pystore.compare.report import LogSummary
from pystore.text import count_text, size_text

__all__ = ["compare"]

_EXAMPLE = """\b
Example: do two replicas hold the same log?
  pystore compare /data/master /data/slave
"""


@click.command(short_help="Compare two stores byte by byte.", epilog=_EXAMPLE)
@store_argument
@click.argument("other", type=StorePath())
@json_option
def compare(*, store: Path, other: Path, as_json: bool) -> int:
    """
    Compare the logs of STORE and OTHER over the offsets that both have.

    Shows the first difference, the ranges that differ with the store that is whole
    there, and where the epochs part if both have epochs. Both stores may be damaged,
    and of different segment sizes. The exit code is 0 if the common bytes and the ends
    are the same, 1 if they differ, 3 if bytes could not be read.
    """
    with ProgressBar(f"compare {store.name}") as progress:
        report = compare_stores(store, other, progress=progress.reach)
    if as_json:
        echo_json(_json(report))
    else:
        click.echo(lines_text(_lines(report)))
    if report.unreadable_bytes:
        return UNFINISHED
    return DONE if report.is_identical else BAD


def _lines(report: CompareReport) -> list[str]:
    ours, theirs = report.logs
    start, end = report.start_offset, report.end_offset
    what = f"offsets {start} to {end}, {size_text(report.compared_bytes)} compared"
    if start > end or (start == end and not report.has_same_ends):
        what = "the logs have no offsets in common"
    elif not report.ranges:
        what = f"no byte differs: {what}"
    verdict = "identical" if report.is_identical else "different"
    verdict = verdict_text(verdict, is_good=report.is_identical)
    lines = [f"{ours.path} and {theirs.path}: {verdict}: {what}"]
    lines += [f"  {_log_text(log)}" for log in report.logs]
    if not report.has_same_ends:
        ahead = theirs if ours.end_offset < theirs.end_offset else ours
        size = abs(ours.end_offset - theirs.end_offset)
        lines.append(
            f"  the ends differ: {ahead.path} has {count_text(size)} more bytes"
        )
    if report.first is not None:
        first = report.first
        where = "no whole record is there"
        if first.record_offset is not None:
            where = f"{first.field} of the record at offset {first.record_offset}"
        lines.append(f"  first difference: offset {first.offset}: {where}")
        lines += [f"    {path}" for path in first.paths]
    lines += [f"  differs: {_difference_text(one)}" for one in report.differences]
    if report.ranges > len(report.differences):
        lines.append(
            f"  differs: {count_text(report.ranges)} ranges in all, "
            f"{size_text(report.bytes_differing)}"
        )
    return lines + _epoch_lines(report)


def _log_text(log: LogSummary) -> str:
    text = f"{log.path}: begins at {log.min_offset}, ends at {log.end_offset}"
    if log.segment_size is not None:
        text += f", segments of {count_text(log.segment_size)} bytes"
    return f"{text}; at its end: {log.tail_reason}" if log.tail_reason else text


def _difference_text(found: LogDifference) -> str:
    ours, theirs = (_state_text(state) for state in found.states)
    text = f"offset {found.offset}, {count_text(found.size)} bytes"
    return f"{text}: {ours} in the first, {theirs} in the second"


def _state_text(state: SideState) -> str:
    return f"{state.verdict} ({state.reason})" if state.reason else state.verdict


def _epoch_lines(report: CompareReport) -> list[str]:
    lines = [
        f"  note: {log.path}: its epochs cannot be read: {log.epochs_error}"
        for log in report.logs
        if log.epochs_error
    ]
    if not report.has_epochs:
        return [*lines, "  epochs: not in both stores; compared by bytes alone"]
    if report.consistent_point is None:
        return [*lines, "  epochs: none in common"]
    point = report.consistent_point
    ends = {log.end_offset for log in report.logs}
    if ends == {point}:
        return [*lines, "  epochs: the same"]
    return [*lines, f"  epochs: they agree up to offset {point}, the consistent point"]


def _json(report: CompareReport) -> dict[str, Any]:
    first = report.first
    return {
        "identical": report.is_identical,
        "stores": [_log_json(log) for log in report.logs],
        "startOffset": report.start_offset,
        "endOffset": report.end_offset,
        "comparedBytes": report.compared_bytes,
        "sameEnds": report.has_same_ends,
        "firstDifference": None
        if first is None
        else {
            "offset": first.offset,
            "paths": list(first.paths),
            "recordOffset": first.record_offset,
            "field": first.field,
        },
        "differingRanges": report.ranges,
        "differingBytes": report.bytes_differing,
        "unreadableBytes": report.unreadable_bytes,
        "differences": [
            {
                "offset": one.offset,
                "size": one.size,
                "verdicts": [state.verdict for state in one.states],
                "reasons": [state.reason for state in one.states],
            }
            for one in report.differences
        ],
        "hasEpochs": report.has_epochs,
        "consistentPoint": report.consistent_point,
    }


def _log_json(log: LogSummary) -> dict[str, Any]:
    return {
        "store": log.path,
        "minOffset": log.min_offset,
        "endOffset": log.end_offset,
        "segmentSize": log.segment_size,
        "tailReason": log.tail_reason,
        "epochs": None if log.epochs is None else len(log.epochs.entries),
        "epochsError": log.epochs_error,
    }
