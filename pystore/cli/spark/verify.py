"""
``pystore spark verify``: checks stores on Spark, and compares replicas.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pystore.cli.lib.exit_codes import BAD, DONE, UNFINISHED
from pystore.cli.lib.group import StorePath, StoreText, json_option
from pystore.cli.lib.output import echo_json
from pystore.cli.lib.sizes import parse_size
from pystore.cli.spark import master_option
from pystore.cli.spark.verify_peers import (
    marks_told,
    opened_peers,
    peer_options,
    wanted_peers,
)
from pystore.fs.layout import COMMIT_LOG
from pystore.text import count_text, rate_text, seconds_text, size_text
from pystore.verify.coverage import UNCOVERED_FIELDS

if TYPE_CHECKING:
    from pystore.spark.peers.run import PeerVerification
    from pystore.spark.verify.executors import RunTasks
    from pystore.spark.verify.run import VerifyRun
    from pystore.spark.verify.task import SegmentCheck

__all__ = ["verify"]

_EXAMPLE = """\b
Examples: compare three replicas; check 100 GB each hour
  pystore spark verify --replicas all --into audit /data/a /data/b /data/c
  pystore spark verify --continuous --budget 100g --pause 3600 --into audit '/data/*'
Example: check the replicas of running brokers, and have what is bad repaired
  pystore spark verify --peers -a 127.0.0.1:9878 --records /data/records --mark
"""


@click.command(short_help="Check stores, and compare replicas.", epilog=_EXAMPLE)
@click.argument("stores", type=StoreText(), metavar="[STORE...]", nargs=-1)
@click.option(
    "--replicas",
    type=click.Choice(["auto", "all", "none"]),
    default="auto",
    show_default=True,
    help="Which stores to compare with each other: those of one broker set, all, none.",
)
@click.option(
    "--into",
    type=StorePath(file_okay=False),
    metavar="DIR",
    help="Write the round here: audit/round=N/ (Parquet), summary.json, report.html.",
)
@click.option(
    "--sample",
    type=click.IntRange(0, 100),
    default=100,
    metavar="PERCENT",
    help="Read only this share of each segment's blocks, other blocks in each round, "
    "and check the records in them.",
)
@click.option(
    "--budget",
    callback=parse_size,
    metavar="SIZE",
    help="Read at most SIZE in a round: first segments that are known to be bad, then "
    "those that were never checked, then those with the oldest check. Needs --into, "
    "which keeps the rounds.",
)
@click.option(
    "--forget",
    type=StorePath(),
    metavar="STORE",
    multiple=True,
    help="A store of earlier rounds that is out of service. May be repeated.",
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
@peer_options
@master_option
@json_option
def verify(
    *,
    stores: tuple[str, ...],
    replicas: str,
    into: Path | None,
    sample: int,
    budget: int | None,
    forget: tuple[Path, ...],
    continuous: bool,
    rounds: int | None,
    pause: float,
    master: str | None,
    as_json: bool,
    **peer: Any,  # noqa: ANN401  the options of `peer_options`
) -> int:
    """
    Check every segment of each STORE on Spark. No store is changed.

    STORE is a root, a glob or a file: URL. The job checks records, checksums, queue
    offsets, consume queues, epochs and seals, and compares replicas block by block.
    Each segment of each store gets a verdict with its evidence: OK, UNSEALED (valid,
    but there is no seal and no replica to compare with), SAMPLED (the blocks that were
    read are right), ABSENT, CORRUPT, DIVERGENT, ORPHAN or UNKNOWN.

    With --peers it checks the replicas of running brokers instead: see
    docs/spark.md, Running replicas.

    The exit code is 1 if an operator has to act, and 3 if something could not be
    checked. With --into, it is that of the newest verdicts over all rounds.
    """
    # PySpark is needed from here on; other commands must not need it. Spark takes
    # seconds to start, so options and paths are checked first.
    from pystore.spark.plan.paths import find_roots  # noqa: PLC0415

    if budget is not None and into is None:
        raise click.UsageError("--budget needs --into DIR, which keeps the rounds")
    wanted = wanted_peers(stores, sample, peer)
    if wanted is None:
        find_roots(stores)
    count = rounds or (None if continuous else 1)
    if into is None:
        keep = None
    else:
        gone = {str(one.absolute()) for one in forget}
        keep = partial(_kept_round, into=into, budget=budget, forgotten=gone)
    with ExitStack() as stack:
        if into is not None:
            from pystore.spark.verify.round_log import lock_rounds  # noqa: PLC0415

            # A second job into this folder is refused before it reads for hours.
            stack.enter_context(lock_rounds(into))
        job = None if wanted is None else stack.enter_context(opened_peers(wanted))
        options = {"paths": stores, "replicas": replicas, "percent": sample}
        run = partial(_started, stack, master)
        return _rounds(
            run,
            job,
            options,
            count=count,
            pause_s=pause,
            keep=keep,
            as_json=as_json,
        )


def _started(stack: ExitStack, master: str | None) -> RunTasks:
    from pystore.spark.session import open_session  # noqa: PLC0415
    from pystore.spark.verify.executors import on_spark  # noqa: PLC0415

    session = open_session("pystore spark verify", master)
    return on_spark(stack.enter_context(session))


def _rounds(
    start: Callable[[], RunTasks],
    job: PeerVerification | None,
    options: dict[str, Any],
    *,
    count: int | None,
    pause_s: float,
    keep: Callable[..., int] | None,
    as_json: bool,
) -> int:
    """
    Runs rounds, each with its report; returns the worst exit code. Spark starts with
    the first one that is not paused.
    """
    from pystore.spark.verify.run import verify_stores  # noqa: PLC0415

    code = DONE
    run: RunTasks | None = None
    for index in itertools.count() if count is None else range(count):
        if index:
            time.sleep(pause_s)
        if job is not None and (why := job.why_not()):
            click.echo(f"{why}: nothing was read", err=True)
            code = _worst(code, UNFINISHED)
            continue
        run = run or start()
        check: Callable[..., VerifyRun] = partial(verify_stores, run, **options)
        if job is not None:
            check = partial(job.round, run)
        if keep is None:
            found = check(number=index, note=partial(_progress, index))
            done = _report(found, job=job, as_json=as_json)
        else:
            done = keep(check, job=job, as_json=as_json)
        code = _worst(code, done)
    return code


def _progress(number: int, _: Sequence[SegmentCheck], left: int) -> None:
    if left:
        text = f"round {number}: {count_text(left)} segments are left to check"
        click.echo(text, err=True)


def _kept_round(
    check: Callable[..., VerifyRun],
    into: Path,
    budget: int | None,
    forgotten: set[str],
    *,
    job: PeerVerification | None,
    as_json: bool,
) -> int:
    """
    Runs a round that knows the ones before, prints and writes it. Returns the exit code
    of the newest verdicts.
    """
    from pystore.spark.verify.output import write_output  # noqa: PLC0415
    from pystore.spark.verify.past import (  # noqa: PLC0415
        merge_rounds,
        with_lost_stores,
    )
    from pystore.spark.verify.round_log import RoundLog, read_seen  # noqa: PLC0415
    from pystore.spark.verify.rounds import (  # noqa: PLC0415
        last_verified,
        load_past,
        next_round,
        oldest_first,
    )

    past, seen, number = load_past(into), read_seen(into), next_round(into)
    for (store, segment), texts in seen.items():
        text = f"a round that was stopped saw: {store} segment {segment}: "
        click.echo(text + "; ".join(texts), err=True)
    bad = dict.fromkeys(seen, ()) | past.bad
    choose = oldest_first(last_verified(into), budget, bad) if budget else None
    log = RoundLog(into, number)

    def note(checks: Sequence[SegmentCheck], left: int) -> None:
        log.note(checks)
        _progress(number, checks, left)

    found = check(number=number, choose=choose, past=past.bad, note=note)
    gone = forgotten | (set() if job is None else job.gone(past.stores))
    found = with_lost_stores(past, found, gone)
    newest = merge_rounds(past, found, gone)
    # What was found is told even if it cannot be written.
    code = _report(newest, into, job=job, as_json=as_json)
    if log.problem is not None:
        click.echo(f"warning: {log.problem}", err=True)
    write_output(into, found, newest)
    log.publish()
    return code


def _worst(code: int, other: int) -> int:
    return BAD if BAD in (code, other) else max(code, other)


def _report(
    newest: VerifyRun,
    into: Path | None = None,
    *,
    job: PeerVerification | None,
    as_json: bool,
) -> int:
    """
    Prints a round, and returns the exit code of the newest verdicts.
    """
    from pystore.spark.verify.summary import (  # noqa: PLC0415
        is_bad,
        is_unfinished,
        summary_of,
    )

    report = summary_of(newest)
    more: list[str] = []
    if job is not None:
        report["marks"], more = marks_told(job)
    if as_json:
        echo_json(report)
    else:
        click.echo("\n".join([*_lines(report, into), *more]))
    is_early = job is not None and bool(job.stopped)
    if is_bad(newest):
        return BAD
    return UNFINISHED if is_early or is_unfinished(newest) else DONE


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
        if one["name"] and one["verdict"] == "ORPHAN":
            where += f"/{COMMIT_LOG}/{one['name']}"
        elif one["name"]:
            where += f" {one['name']}"
        if one["segment"] is not None:
            where += f" segment {one['segment']}"
        yield f"  {one['verdict']}: {where}"
        yield from (f"    {line}" for line in one["evidence"])
    if report["uncoveredBytes"]:
        size = size_text(report["uncoveredBytes"])
        fields = ", ".join(UNCOVERED_FIELDS)
        yield f"  no checksum covers {size} of the records: {fields}"
    if report["notes"]:
        yield (
            f"  {count_text(report['notes'])} notes on queue offsets, which are no "
            "damage by themselves: see evidence in the rows"
        )
    if into is not None:
        yield f"report: {into / 'report.html'}"
