"""
``pystore replica``: follows a master and reports its progress.
"""

from __future__ import annotations

import logging
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pystore.cli.lib.exit_codes import error_line
from pystore.cli.lib.group import store_argument
from pystore.cli.lib.interrupt import Interruption, interruptible, service_exit_code
from pystore.cli.lib.log_lines import line_format, log_format_option, to_stderr
from pystore.cli.lib.output import echo_json
from pystore.cli.lib.sizes import parse_size
from pystore.epochs.table import NO_EPOCH
from pystore.errors import InvalidError
from pystore.events.event import Event
from pystore.events.line_format import LineFormat, event_line
from pystore.events.node_teller import NodeTeller
from pystore.ha.slave.backoff import BackOff
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.effects import SlaveProtocol
from pystore.ha.slave.follower import Follower, FollowerEnvironment
from pystore.ha.slave.protocol_legacy import LegacySlaveProtocol
from pystore.ha.slave.protocol_v3 import V3SlaveProtocol
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.ha.slave.transport import MasterStream, connect
from pystore.net.address import parse_address
from pystore.text import count_text, rate_text, seconds_text, size_text

__all__ = ["replica"]

_EXAMPLE = """\b
Example: a copy of a Java master; the master does not count it as a replica
  pystore replica /data/copy --master 10.0.0.5:10912 --protocol legacy --learner
"""

_INTERVAL_MS = 1000
_CLEAR_LINE = "\r\x1b[K"


@dataclass(frozen=True, slots=True)
class Options:
    """
    The options of the command that its output contains.
    """

    store: Path
    master: str
    protocol: str
    as_json: bool
    form: LineFormat


def _parse_master(
    _context: click.Context, _parameter: click.Parameter, value: str
) -> str:
    try:
        parse_address(value)
    except ValueError as error:
        # Wrong usage, reported before the store is opened.
        raise click.BadParameter(str(error)) from error
    return value


@click.command(short_help="Follow a master and store the same bytes.", epilog=_EXAMPLE)
@store_argument
@click.option(
    "--master",
    required=True,
    metavar="HOST:PORT",
    callback=_parse_master,
    help="The master's HA listener (RocketMQ: haListenPort).",
)
@click.option(
    "--protocol",
    type=click.Choice(["v3", "legacy"]),
    default="v3",
    show_default=True,
    help="v3 for a pystore master, legacy for RocketMQ 5.1.1 and newer in controller "
    "mode.",
)
@click.option(
    "--learner",
    is_flag=True,
    help="Follow without a vote: no acknowledgement waits for this replica, and it is "
    "never elected.",
)
@click.option(
    "--broker-id",
    type=click.IntRange(1, 2**63 - 1),
    default=None,
    metavar="N",
    help="The id of this replica, different for each replica. Required without "
    "--learner; a learner has an unused id.",
)
@click.option("--cluster", default="DefaultCluster", show_default=True)
@click.option("--broker-name", default="broker-a", show_default=True)
@click.option(
    "--sync-from-last-file",
    is_flag=True,
    help="Let an empty store begin with the master's last segment, not with the first.",
)
@click.option(
    "--may-wipe",
    is_flag=True,
    help="Empty the store if its history differs from the master's; otherwise that is "
    "an error. Not for a member of the set: it may hold the only copy of "
    "acknowledged records.",
)
@click.option(
    "--segment-size",
    callback=parse_size,
    metavar="SIZE",
    help="The segment size of a new store: that of the master, such as 1g (default).",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object each second instead."
)
@log_format_option
def replica(
    *,
    store: Path,
    master: str,
    protocol: str,
    learner: bool,
    broker_id: int | None,
    cluster: str,
    broker_name: str,
    sync_from_last_file: bool,
    may_wipe: bool,
    segment_size: int | None,
    as_json: bool,
    **lines: str | None,
) -> int:
    """
    Follow a master until stopped, so that STORE holds the same bytes as its log.

    A missing or empty directory becomes a store. After every lost connection the
    replica connects again, first after ten milliseconds, later after at most thirty
    seconds; each new reason is a line on stderr. Ctrl-C and SIGTERM stop the replica
    cleanly: all received bytes are on disk. After SIGTERM the exit code is 0.
    """
    if broker_id is None and not learner:
        raise click.UsageError("give --broker-id, or --learner")
    form = line_format(lines["logFormat"] or LineFormat.TEXT.value)
    options = Options(store, master, protocol, as_json, form)
    output = StatusOutput(options, sys.stdout.isatty() and not as_json)
    with (
        interruptible() as signals,
        ReplicaLog(store, segment_size=segment_size or 0, on_event=output.hear) as log,
    ):
        try:
            config = SlaveConfig(
                cluster=cluster,
                broker_name=broker_name,
                broker_id=_LEARNER_ID if broker_id is None else broker_id,
                incarnation=log.incarnation.counter,
                incarnation_bits=log.incarnation.bits,
                is_learner=learner,
                is_from_last_file=sync_from_last_file,
                may_wipe=lambda: may_wipe,
            )
        except InvalidError as error:
            # A value that no frame can hold is wrong usage.
            raise click.UsageError(str(error)) from error
        output.log = log
        follower = _follower(options, config, log, output, signals)
        try:
            follower.run()
        finally:
            output.end(follower)
    if not as_json:
        click.echo(f"stopped; {store} is closed")
    return service_exit_code(signals.signal_number)


# Higher than every id that a controller assigns.
_LEARNER_ID = 2**31 - 1


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _maker(protocol: str, config: SlaveConfig) -> Callable[[], SlaveProtocol]:
    if protocol == "legacy":
        return lambda: LegacySlaveProtocol(config)
    return lambda: V3SlaveProtocol(config)


def _follower(
    options: Options,
    config: SlaveConfig,
    log: ReplicaLog,
    output: StatusOutput,
    signals: Interruption,
) -> Follower:
    host, port = parse_address(options.master)

    def is_stopping() -> bool:
        return signals.signal_number != 0

    def dial() -> MasterStream:
        return connect(host, port, is_stopping, _now_ms)

    environment = FollowerEnvironment(
        dial=dial,
        make=_maker(options.protocol, config),
        now_ms=_now_ms,
        pause=lambda wait_ms: time.sleep(wait_ms / 1000),
        is_stopping=is_stopping,
        tell=output.teller(config).of_peer("master", None, options.master),
        turn=lambda: output.turn(follower),
    )
    follower = Follower(log, environment, BackOff(random.random))
    return follower


class StatusOutput:
    """
    Prints the state of a follower each second, for people or as JSON.

    Args:
        options: the options of the command.
        is_terminal: whether one line is overwritten each second.

    Attributes:
        log: the log of the replica, once it is open.
    """

    def __init__(self, options: Options, is_terminal: bool) -> None:
        self.log: ReplicaLog
        self._options = options
        self._is_terminal = is_terminal
        self._due_ms = _now_ms()
        self._before = (_now_ms(), 0)
        self._problem = ""

    def teller(self, config: SlaveConfig) -> NodeTeller:
        """
        Returns what tells the events of the replica.
        """
        own = None if config.broker_id == _LEARNER_ID else config.broker_id
        return NodeTeller(config.cluster, config.broker_name, own, self.hear)

    def hear(self, event: Event) -> None:
        """
        Prints the line of an event above the live line. Any thread.
        """
        if event.level <= logging.DEBUG:
            return
        if self._is_terminal:
            click.echo(_CLEAR_LINE, nl=False)
        to_stderr(event_line(event, self._options.form))

    def turn(self, follower: Follower) -> None:
        """
        Prints the state, if a second has passed.
        """
        if _now_ms() < self._due_ms:
            return
        self._due_ms = _now_ms() + _INTERVAL_MS
        problem = self.log.problem
        self._problem = "" if problem is None else error_line(problem)
        self._show(follower)

    def end(self, follower: Follower) -> None:
        """
        Removes the live line, or prints the last JSON object.
        """
        if self._options.as_json:
            self._show(follower)
        elif self._is_terminal:
            click.echo(_CLEAR_LINE, nl=False)

    def _show(self, follower: Follower) -> None:
        if not self._options.as_json and not self._is_terminal:
            return
        report = self._report(follower)
        if self._options.as_json:
            echo_json(report)
            sys.stdout.flush()
        else:
            click.echo(_CLEAR_LINE + _line(report), nl=False)

    def _report(self, follower: Follower) -> dict[str, Any]:
        standing, log = follower.status(), self.log.log()
        now_ms, appended = _now_ms(), standing.appended_bytes
        passed_ms, grown = now_ms - self._before[0], appended - self._before[1]
        self._before = (now_ms, appended)
        is_linked, heard_ms = standing.is_linked, standing.heard_ms
        # Of the last link it would look as if all were well.
        end = standing.master_end if is_linked else None
        return {
            "store": str(self._options.store),
            "master": self._options.master,
            "protocol": self._options.protocol,
            "state": standing.state.name,
            "epoch": log.epochs.last_epoch,
            "minOffset": log.min_offset,
            "endOffset": log.end_offset,
            "flushedOffset": log.flushed_offset,
            "confirmOffset": log.confirm_offset,
            "connected": is_linked,
            "lastHeardSeconds": None if heard_ms is None else heard_ms / 1000,
            "masterEndOffset": standing.master_end,
            "gapBytes": None if end is None else max(0, end - log.received_offset),
            "behindSeconds": standing.behind_ms / 1000 if is_linked else None,
            "bytesPerSecond": grown * 1000 // passed_ms if passed_ms else 0,
            "appendedBytes": appended,
            "links": standing.links,
            "reason": standing.reason,
            "problem": self._problem,
        }


def _line(report: dict[str, Any]) -> str:
    gap, behind = report["gapBytes"], report["behindSeconds"]
    heard = report["lastHeardSeconds"]
    parts = [
        report["state"].lower(),
        f"offset {count_text(report['endOffset'])}",
        "gap unknown" if gap is None else f"gap {size_text(gap)}",
        _heard_text(heard) if behind is None else f"behind {seconds_text(behind)}",
        rate_text(report["bytesPerSecond"], 1),
        f"epoch {report['epoch']}" if report["epoch"] != NO_EPOCH else "no epoch",
    ]
    return ", ".join(parts)


def _heard_text(heard_s: float | None) -> str:
    if heard_s is None:
        return "no master heard"
    return f"master heard {seconds_text(heard_s)} ago"
