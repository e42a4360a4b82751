"""
``pystore demo``: kills writers and a master, and shows that no acknowledged record is
lost.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from pystore.cli.lib.exit_codes import BAD, DONE
from pystore.cli.lib.failover_text import failover_json, failover_text
from pystore.cli.lib.group import StorePath, json_option
from pystore.cli.lib.interrupt import signals_to_handle
from pystore.cli.lib.output import echo_json
from pystore.cli.lib.progress import StepProgress
from pystore.cli.lib.recovery_demo_text import recovery_demo_json, recovery_demo_text
from pystore.cli.lib.store_demo_text import report_json, report_text
from pystore.demo.corpus import Corpus, read_corpus
from pystore.demo.failover import FailoverReport, FailoverSettings, run_failover
from pystore.demo.recovery_run import (
    RecoveryDemoReport,
    RecoveryDemoSettings,
    run_recovery,
)
from pystore.demo.replicas import (
    COPIES,
    compare_replicas,
    show_replicas,
)
from pystore.demo.run import DemoReport, DemoSettings, run_demo
from pystore.demo.timeline import EVENT_HEADER, Timeline, TimelineEvent, event_lines
from pystore.demo.timeline_svg import render_timeline
from pystore.errors import UnavailableError
from pystore.fs.free_space import require_free
from pystore.text import count_text

__all__ = ["demo"]

REPEAT = 5
"""The whole demo, with Spark, then takes about 85 s of processor time."""

_REPEAT_BYTES = 250_000_000
"""Bytes of log, with room for records that a kill makes the demo append twice."""

_SET_BYTES = 3_000_000_000
"""Of the three stores of the replicated part."""

_HOSTS_BYTES = 1_000_000_000
"""Of the stores of all hosts."""

_STORE, _REPLICAS, _RECOVERY = "store", "replicas", "recovery"
_PICTURE, _RECOVERY_PICTURE = "timeline.svg", "recovery.svg"

_EXAMPLE = """\b
Example: run twice as long, then inspect the store
  pystore demo --repeat 12 --directory /data/demo --keep
  pystore info /data/demo/store
Example: only the three brokers, under three controllers
  pystore demo --part replicas --controllers 3 --zookeeper 127.0.0.1:2181
Example: lost and damaged copies come back by themselves, with a picture of it
  pystore demo --recovery --report out
"""


@click.command(
    short_help="Kill a writer and a master, lose no acknowledged record.",
    epilog=_EXAMPLE,
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
    "--part",
    type=click.Choice([_STORE, _REPLICAS, "all"]),
    default="all",
    show_default=True,
    help="One store with killed writers, three brokers with a killed master, or both.",
)
@click.option(
    "--controllers",
    type=click.IntRange(1, 9),
    default=1,
    show_default=True,
    metavar="N",
    help="Of the three brokers; several need --zookeeper.",
)
@click.option(
    "--zookeeper",
    default="",
    metavar="HOSTS",
    help="Servers of the controllers' records, which are removed at the end.",
)
@click.option(
    "--secure",
    is_flag=True,
    help="The three brokers and their controllers sign requests, prove links and speak "
    "TLS.",
)
@click.option(
    "--recovery",
    is_flag=True,
    help="Another demo: hosts with four sets lose a host, bits and files, and are "
    "emptied; AutoRecovery repairs.",
)
@click.option(
    "--directory",
    type=StorePath(),
    metavar="D",
    help="The stores are created as D/store and D/replicas, or D/recovery. By default "
    "D is a temporary directory.",
)
@click.option(
    "--report",
    "into",
    type=StorePath(file_okay=False),
    metavar="DIR",
    help="Write the timeline to DIR/timeline.svg. With Java, also verify the store and "
    "two copies of it on Spark, one damaged on purpose, and the three brokers' stores, "
    "and write the reports to DIR. Needs space for the copies.",
)
@click.option("--keep", is_flag=True, help="Keep the stores.")
@json_option
def demo(
    *,
    part: str,
    controllers: int,
    zookeeper: str,
    secure: bool,
    recovery: bool,
    keep: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401
) -> int:
    """
    Show on this machine that no acknowledged record is lost.

    One store: four threads of a writer process append every text file of Python's
    standard library to a log, one record for each line. SIGKILL ends the writer five
    times during this work. Each time the demo opens the store again, compares every
    acknowledged record byte for byte, and verifies every record.

    Three brokers: a controller and three brokers run on 127.0.0.1, and a writer
    appends with the ack `all`. SIGKILL ends the master, which comes back and cuts what
    only it had; then the mastership is handed over, and the controller is killed and
    starts again. At the end each acknowledged record is looked up in each store.

    With --recovery: three hosts carry four sets, and a fourth one is spare. Copies are
    damaged, a host is lost for good, another one is emptied while it serves, and a
    segment loses every copy. Writers and consumers go on; AutoRecovery repairs.

    The exit code is 1 if an acknowledged record is missing, or a copy is not repaired
    in time.
    """
    if controllers > 1 and not zookeeper:
        raise click.UsageError(f"--controllers {controllers} needs --zookeeper HOSTS")
    if recovery and (part != "all" or zookeeper or secure):
        raise click.UsageError(
            "--recovery goes without --part, --controllers, --zookeeper and --secure"
        )
    parts = (_STORE, _REPLICAS) if part == "all" else (part,)
    parts = (_RECOVERY,) if recovery else parts
    run = _DemoRun(parts, as_json=as_json, **options)
    with _ended_by_signals():
        try:
            run.play(controllers, zookeeper, keep=keep, secure=secure)
        finally:
            run.close(keep=keep)
    if as_json:
        echo_json(run.json(keep=keep))
    return DONE if run.is_good else BAD


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """
    Inside the block, SIGTERM and SIGHUP are an exception, as Ctrl-C is: the processes
    that the demo has started do not stay.
    """

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    numbers = [one for one in signals_to_handle() if one != signal.SIGINT]
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _DemoRun:
    """
    The parts of the demo, one after the other, each with its text.
    """

    def __init__(
        self,
        parts: tuple[str, ...],
        *,
        as_json: bool,
        repeat: int,
        directory: Path | None,
        into: Path | None,
    ) -> None:
        self._parts = parts
        self._as_json = as_json
        self._into = into
        if into is not None:
            # A report that cannot be written is refused now, and not in the end.
            into.mkdir(parents=True, exist_ok=True)
        self._is_temporary = directory is None
        self._folder = _place(directory, parts)
        self._settings = DemoSettings(self._folder / _STORE, repeat)
        self._progress = StepProgress()
        self._spark = ExitStack()
        self._store: DemoReport | None = None
        self._failover: FailoverReport | None = None
        self._recovery: RecoveryDemoReport | None = None

    @property
    def is_good(self) -> bool:
        """
        Whether every part went well.
        """
        reports = (self._store, self._failover, self._recovery)
        return all(one.is_good for one in reports if one is not None)

    def play(
        self, controllers: int, zookeeper: str, *, keep: bool, secure: bool
    ) -> None:
        """
        Runs the parts.
        """
        self._check_space()
        if _STORE in self._parts:
            self._store = self._play_store()
            self._echo(report_text(self._store, keep=keep))
        if _REPLICAS in self._parts:
            before = "" if self._store is None else "\n\n"
            self._echo(before + EVENT_HEADER)
            folder = self._folder / _REPLICAS
            folder.mkdir()
            settings = FailoverSettings(
                folder, controllers, zookeeper, is_secure=secure
            )
            self._failover = self._play_replicas(settings)
            self._echo("\n" + failover_text(self._failover, keep=keep))
        if _RECOVERY in self._parts:
            self._echo(EVENT_HEADER)
            self._recovery = self._play_recovery()
            self._echo("\n" + recovery_demo_text(self._recovery, keep=keep))

    def close(self, *, keep: bool) -> None:
        """
        Removes the stores, unless they are to be kept.
        """
        self._progress.close()
        self._spark.close()
        if not keep:
            for name in self._parts:
                shutil.rmtree(self._folder / name, ignore_errors=True)
            if self._is_temporary:
                shutil.rmtree(self._folder, ignore_errors=True)

    def json(self, *, keep: bool) -> dict[str, Any]:
        """
        Returns the reports with JSON keys.
        """
        store, failover = self._store, self._failover
        if self._recovery is not None:
            return {"recovery": recovery_demo_json(self._recovery, keep=keep)}
        found = {} if store is None else report_json(store, keep=keep)
        return found | {
            "failover": None if failover is None else failover_json(failover, keep=keep)
        }

    def _play_store(self) -> DemoReport:
        report = run_demo(self._settings, self._progress.note)
        if self._into is not None:
            self._open_spark()
            store, note = self._settings.store, self._progress.note
            report.replicas = show_replicas(store, self._into, note)
        self._progress.close()
        return report

    def _play_replicas(self, settings: FailoverSettings) -> FailoverReport:
        note = self._progress.note
        report = run_failover(settings, self._corpus(), self._tell, note)
        if self._into is not None:
            self._open_spark()
            stores = [one.store for one in report.checks]
            into = self._into / _REPLICAS
            report.agreement = compare_replicas(stores, into, note)
            report.picture = self._into / _PICTURE
            self._draw(report, report.picture)
        self._progress.close()
        return report

    def _play_recovery(self) -> RecoveryDemoReport:
        folder = self._folder / _RECOVERY
        folder.mkdir()
        settings = RecoveryDemoSettings(folder)
        report = run_recovery(settings, self._corpus(), self._tell, self._progress.note)
        self._progress.close()
        if self._into is not None:
            report.picture = self._into / _RECOVERY_PICTURE
            title = "pystore demo --recovery: copies are lost, and come back"
            summary = report.problem or (
                f"{count_text(report.records)} records acknowledged as `all`; missing: "
                f"{count_text(report.missing)}; unreadable on a master: "
                f"{count_text(report.unreadable)}"
            )
            _write_picture(report.timeline, title, summary, report.picture)
        return report

    def _corpus(self) -> Corpus:
        return read_corpus() if self._store is None else self._store.corpus

    def _tell(self, event: TimelineEvent) -> None:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        self._echo("\n".join(event_lines(event, width)))

    def _echo(self, text: str) -> None:
        if not self._as_json:
            click.echo(text)

    @staticmethod
    def _draw(report: FailoverReport, path: Path) -> None:
        title = "pystore demo: three brokers, their master is killed"
        summary = (
            f"{count_text(report.records)} records acknowledged as `all`; acknowledged "
            f"but missing: {count_text(report.missing)}"
        )
        _write_picture(report.timeline, title, summary, path)

    def _open_spark(self) -> None:
        """
        Opens the session that both parts use; without Java each of them says so.
        """
        from pystore.spark.session import open_session  # noqa: PLC0415

        with suppress(UnavailableError):
            # Its own bars would stay in the terminal.
            settings = {"spark.ui.showConsoleProgress": "false"}
            session = open_session("pystore demo", "local[*]", settings)
            self._spark.enter_context(session)

    def _check_space(self) -> None:
        needed = 0
        if _STORE in self._parts:
            needed = self._settings.repeat * _REPEAT_BYTES
            needed += 2 * self._settings.segment_size
            needed *= 1 + (COPIES if self._into else 0)
        if _REPLICAS in self._parts:
            needed += _SET_BYTES
        if _RECOVERY in self._parts:
            needed += _HOSTS_BYTES
        require_free(
            self._folder,
            needed,
            "the demo",
            "choose another --directory or a smaller --repeat",
        )


def _write_picture(timeline: Timeline, title: str, summary: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_timeline(timeline, title, summary), "utf-8")


def _place(directory: Path | None, parts: tuple[str, ...]) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="pystore-demo-"))
    directory.mkdir(parents=True, exist_ok=True)
    for name in parts:
        if (directory / name).exists():
            raise click.UsageError(
                f"{directory / name} exists: the demo creates its own store"
            )
    return directory
