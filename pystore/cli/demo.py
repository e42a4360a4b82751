"""
``pystore demo``: kills writers and shows that no acknowledged record is lost.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import click

from pystore.cli.lib.exit_codes import BAD, DONE
from pystore.cli.lib.group import StorePath, json_option
from pystore.cli.lib.output import echo_json, pairs_text, table_text, verdict_text
from pystore.cli.lib.progress import ProgressBar
from pystore.demo.replicas import COPIES, ReplicaReport, show_replicas
from pystore.demo.run import DemoReport, DemoRound, DemoSettings, run_demo
from pystore.fs.free_space import require_free
from pystore.text import count_text, json_keys, rate_text, seconds_text, size_text

__all__ = ["demo", "report_json", "report_text"]

REPEAT = 7
"""The demo then takes 20 to 40 seconds on two processors."""

_REPEAT_BYTES = 250_000_000
"""Bytes of log, with room for records that a kill makes the demo append twice."""

_EXAMPLE = """\b
Example: run twice as long, then inspect the store
  pystore demo --repeat 12 --directory /data/demo --keep
  pystore info /data/demo/store
"""


@click.command(
    short_help="Kill a writer, lose no acknowledged record.", epilog=_EXAMPLE
)
@click.option(
    "--repeat",
    type=click.IntRange(1, 10_000),
    default=REPEAT,
    show_default=True,
    metavar="N",
    help="How often all files are appended; 200 MB of log each time.",
)
@click.option(
    "--directory",
    type=StorePath(),
    metavar="D",
    help="The store is created as D/store. By default D is a temporary directory.",
)
@click.option(
    "--report",
    "into",
    type=StorePath(file_okay=False),
    metavar="DIR",
    help="Then verify the store and two copies of it on Spark, one damaged on purpose, "
    "and write the report to DIR. Needs Java, and space for the copies.",
)
@click.option("--keep", is_flag=True, help="Keep the store.")
@json_option
def demo(
    *,
    repeat: int,
    directory: Path | None,
    into: Path | None,
    keep: bool,
    as_json: bool,
) -> int:
    """
    Show on this machine that no acknowledged record is lost.

    Four threads of a writer process append every text file of Python's standard
    library to a log, one record for each line. SIGKILL ends the writer five times
    during this work. Each time the demo opens the store again, compares every
    acknowledged record byte for byte, and verifies every record.

    The exit code is 1 if an acknowledged record is missing.
    """
    settings = DemoSettings(_place(directory), repeat)
    progress = _StepProgress()
    try:
        _check_space(settings, copies=COPIES if into else 0)
        report = run_demo(settings, progress.note)
        if into is not None:
            report.replicas = show_replicas(settings.store, into, progress.note)
    finally:
        progress.close()
        if not keep:
            root = settings.store if directory else settings.store.parent
            shutil.rmtree(root, ignore_errors=True)
    if as_json:
        echo_json(report_json(report, keep=keep))
    else:
        click.echo(report_text(report, keep=keep))
    return DONE if report.is_good else BAD


def _place(directory: Path | None) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="pystore-demo-")) / "store"
    directory.mkdir(parents=True, exist_ok=True)
    store = directory / "store"
    if store.exists():
        raise click.UsageError(f"{store} exists: the demo creates its own store")
    return store


def _check_space(settings: DemoSettings, copies: int) -> None:
    needed = settings.repeat * _REPEAT_BYTES + 2 * settings.segment_size
    needed *= 1 + copies
    require_free(
        settings.store.parent,
        needed,
        "the demo",
        "choose another --directory or a smaller --repeat",
    )


class _StepProgress:
    """
    Shows a bar for one step after the other.
    """

    def __init__(self) -> None:
        self._label = ""
        self._progress: ProgressBar | None = None

    def note(self, label: str, done: int, total: int) -> None:
        """
        Shows the progress of a step; a new label begins a new bar.
        """
        if label != self._label:
            self.close()
            self._label = label
            self._progress = ProgressBar(label, total)
        if self._progress is not None:
            self._progress.reach(done)

    def close(self) -> None:
        """
        Removes the bar.
        """
        if self._progress is not None:
            self._progress.close()
            self._progress = None


_HEADER = (
    "writer",
    "records",
    "log",
    "rate",
    "cut",
    "recovery",
    "read back",
    "missing",
    "extra",
)


def report_text(report: DemoReport, *, keep: bool) -> str:
    """
    Returns the table with a line for each writer, and the totals.
    """
    corpus, last = report.corpus, report.rounds[-1]
    records = sum(one.records for one in report.rounds)
    log_bytes = sum(one.log_bytes for one in report.rounds)
    seconds = sum(one.append_seconds for one in report.rounds)
    missing = sum(one.missing for one in report.rounds)
    rows = [
        (
            "input",
            f"{count_text(corpus.lines)} lines of {count_text(len(corpus.files))} "
            f"files ({size_text(corpus.size_bytes)}, {corpus.topics} topics), "
            f"{report.repeat} times",
        ),
        (
            "acknowledged",
            f"{count_text(records)} records, {size_text(log_bytes)} of log, at "
            f"{rate_text(log_bytes, seconds)} or "
            f"{count_text(round(records / seconds)) if seconds else '-'} records/s",
        ),
        (
            "read back",
            f"{count_text(last.compared)} records, {size_text(report.body_bytes)} of "
            f"bodies compared in {seconds_text(last.compare_seconds)}",
        ),
        (
            "verified",
            f"{count_text(last.verified)} records at "
            f"{rate_text(last.verified_bytes, last.verify_seconds)}: {last.verdict}",
        ),
        ("recoveries", _recoveries_text(report.rounds)),
        (
            "extra",
            f"{count_text(last.extra)} records were stored but not acknowledged: "
            "SIGKILL ended their writer first",
        ),
        ("total time", seconds_text(report.seconds)),
    ]
    if report.replicas is not None:
        rows.append(("on Spark", _replicas_text(report.replicas)))
    if keep:
        rows.append(("store", str(report.store)))
    result = f"acknowledged but missing: {count_text(missing)}"
    problems = [
        f"writer {one.number}: {one.verdict}: {one.problem}"
        for one in report.rounds
        if one.problem
    ]
    return "\n".join(
        [
            table_text(_HEADER, [_row(one) for one in report.rounds]),
            "",
            pairs_text(rows),
            "",
            *problems,
            verdict_text(result, is_good=report.is_good),
        ]
    )


def _row(one: DemoRound) -> tuple[str, ...]:
    return (
        f"{one.number} {'killed' if one.is_killed else 'done'}",
        count_text(one.records),
        size_text(one.log_bytes),
        rate_text(one.log_bytes, one.append_seconds),
        size_text(one.cut_bytes),
        seconds_text(one.recovery_seconds),
        count_text(one.compared),
        count_text(one.missing),
        count_text(one.extra),
    )


def _recoveries_text(rounds: list[DemoRound]) -> str:
    killed = [one for one in rounds if one.is_killed]
    if not killed:
        return "none"
    slowest = max(one.recovery_seconds for one in killed)
    cut = sum(one.cut_bytes for one in killed)
    return (
        f"{len(killed)} after SIGKILL, {count_text(cut)} bytes cut, "
        f"the slowest in {seconds_text(slowest)}"
    )


def _replicas_text(replicas: ReplicaReport) -> str:
    if replicas.skipped:
        return replicas.skipped
    lines = [
        f"the store and {COPIES} copies, one bit changed in one of them: "
        f"{count_text(replicas.segments)} segments at "
        f"{rate_text(replicas.checked_bytes, replicas.seconds)}"
    ]
    for store, segment in replicas.named:
        note = "as planted" if (store, segment) == replicas.planted else "NOT planted"
        lines.append(f"bad: {Path(store).name} segment {segment}, {note}")
    if replicas.planted not in replicas.named:
        lines.append("NOT FOUND: the changed bit")
    return "\n".join([*lines, f"report: {replicas.page}"])


def report_json(report: DemoReport, *, keep: bool) -> dict[str, Any]:
    """
    Returns the report with JSON keys.
    """
    rounds = report.rounds
    return {
        "store": str(report.store) if keep else None,
        "files": len(report.corpus.files),
        "lines": report.corpus.lines,
        "topics": report.corpus.topics,
        "repeat": report.repeat,
        "records": sum(one.records for one in rounds),
        "logBytes": sum(one.log_bytes for one in rounds),
        "bodyBytes": report.body_bytes,
        "missing": sum(one.missing for one in rounds),
        "seconds": round(report.seconds, 3),
        "replicas": _replicas_json(report.replicas),
        "rounds": [
            json_keys({name: getattr(one, name) for name in one.__slots__})
            for one in rounds
        ],
    }


def _replicas_json(replicas: ReplicaReport | None) -> dict[str, Any] | None:
    if replicas is None:
        return None
    values = {name: getattr(replicas, name) for name in replicas.__slots__}
    return json_keys(values | {"page": replicas.page and str(replicas.page)})
