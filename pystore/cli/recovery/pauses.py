"""
``pystore recovery``: pauses and maintenance, each with an end.
"""

from __future__ import annotations

from pathlib import Path

import click

from pystore.autorecovery.maintenance import (
    MaintenanceTarget,
    enter,
    leave,
    read_maintenance,
)
from pystore.autorecovery.pauses import (
    FRESH_MS,
    PauseKind,
    PauseTarget,
    end_pause,
    pause,
    read_pauses,
)
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.cli.lib.durations import moment_text, parse_duration, until_text
from pystore.cli.lib.exit_codes import DONE
from pystore.cli.lib.group import json_option
from pystore.cli.lib.output import echo_json, lines_text
from pystore.cli.recovery.records import (
    dry_run_option,
    open_records,
    operator_name,
    records_options,
    tell_change,
)
from pystore.clocks import wall_ms
from pystore.errors import InvalidError
from pystore.records.record_store import RecordStore

__all__ = ["maintenance", "pause_command", "resume"]

_kind = click.argument("kind", type=click.Choice([one.value for one in PauseKind]))
_name = click.argument("name", required=False, metavar="[CLUSTER/SET|HOST]")
_for = click.option(
    "--for",
    "seconds",
    callback=parse_duration,
    metavar="TIME",
    help="How long: seconds, or 90s, 30m, 2h, 7d.",
)


def _target(kind: str, name: str | None) -> PauseTarget:
    cluster, slash, rest = (name or "").partition("/")
    if kind == PauseKind.SET.value and not (cluster and rest):
        raise click.UsageError("name the set: set CLUSTER/SET")
    if kind == PauseKind.HOST.value and (slash or not name):
        raise click.UsageError("name the host as in the brokers' addresses: host HOST")
    try:
        if kind == PauseKind.SET.value:
            return PauseTarget(PauseKind.SET, cluster, rest)
        return PauseTarget(PauseKind(kind), name=name or "")
    except InvalidError as error:
        # A name that belongs to nothing.
        raise click.UsageError(str(error)) from error


def _words(target: PauseTarget) -> str:
    name = "/".join(filter(None, (target.cluster, target.name)))
    return f"{target.kind.value} {name}".rstrip()


@click.command(
    "pause",
    short_help="Stop repair, verification, a set or a host for a time.",
    epilog="\b\nExample: no repair of one set in the next two hours\n  pystore "
    "recovery pause --records /data/records set DefaultCluster/broker-a --for 2h\n",
)
@_kind
@_name
@_for
@records_options
@dry_run_option
@json_option
def pause_command(
    *,
    kind: str,
    name: str | None,
    seconds: int | None,
    records: str | None,
    config: Path | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """
    Let workers take no segment (repair), or none of a set; read no bytes only to look
    for damage (verification); or leave the replicas of a host alone. A pause ends by
    itself, and is on the first line of `pystore recovery status` until then. Workers
    notice it within 20 s, and finish what they repair.
    """
    target = _target(kind, name)
    if seconds is None:
        raise click.UsageError("give its end: --for 2h")
    now_ms = wall_ms()
    until_ms = now_ms + 1000 * seconds
    with open_records(records, config) as store:
        read_pauses(store)
        if not dry_run:
            by = operator_name()
            pause(store, target, until_ms, by=by, now_ms=now_ms)
            _publish(store, target)
    tell_change(
        [
            f"{_words(target)} pauses for {until_text(until_ms, now_ms)}; workers "
            f"notice it within {FRESH_MS // 1000} s"
        ],
        {"target": target.text, "untilMillis": until_ms},
        as_json=as_json,
        dry_run=dry_run,
    )
    return DONE


@click.command(
    short_help="End a pause before its time.",
    epilog="\b\nExample:\n  pystore recovery resume --records /data/records "
    "set DefaultCluster/broker-a\n",
)
@_kind
@_name
@records_options
@dry_run_option
@json_option
def resume(
    *,
    kind: str,
    name: str | None,
    records: str | None,
    config: Path | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """
    End a pause before its time. What `pystore recovery disable` stopped needs `enable`.
    """
    target = _target(kind, name)
    now_ms = wall_ms()
    with open_records(records, config) as store:
        was_paused = target in read_pauses(store)[0].at(now_ms).entries
        if was_paused and not dry_run:
            end_pause(store, target, now_ms)
            _publish(store, target)
    text = "goes on" if was_paused else "was not paused"
    tell_change(
        [f"{_words(target)} {text}"],
        {"target": target.text, "wasPaused": was_paused},
        as_json=as_json,
        dry_run=dry_run,
    )
    return DONE


def _publish(store: RecordStore, target: PauseTarget) -> None:
    """
    Takes the segments of a set out of the published order, or into it.
    """
    if target.kind is PauseKind.SET:
        UnderReplicationQueue(store, wall_ms).publish_window()


@click.command(
    short_help="Let a host or a replica be away for a time.",
    epilog="\b\nExample: a host is upgraded\n"
    "  pystore recovery maintenance --records /data/records 10.0.0.12 --for 2h\n",
)
@click.argument("name", required=False, metavar="[HOST|CLUSTER/SET/ID]")
@_for
@click.option("--end", "is_end", is_flag=True, help="It is back: end it now.")
@records_options
@dry_run_option
@json_option
def maintenance(
    *,
    name: str | None,
    seconds: int | None,
    is_end: bool,
    records: str | None,
    config: Path | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """
    Mark nothing of a host, or of one replica, for a time, though it is dead. If it is
    not back then, it counts as lost since the end of that time. Without a name: list
    those that are away.
    """
    if name is None:
        if seconds is not None or is_end:
            raise click.UsageError("name the HOST or the replica, CLUSTER/SET/ID")
        return _list_maintenance(records, config, as_json=as_json)
    if (seconds is None) != is_end:
        raise click.UsageError("give its end, --for 2h, or end it with --end")
    try:
        target = MaintenanceTarget.parse(name)
    except InvalidError as error:
        # What was typed.
        raise click.UsageError(str(error)) from error
    now_ms = wall_ms()
    until_ms = now_ms + 1000 * (seconds or 0)
    with open_records(records, config) as store:
        was_away = any(one.key == target.key for one in store.scan(target.key))
        if not dry_run and is_end:
            leave(store, target)
        elif not dry_run:
            enter(store, target, until_ms, by=operator_name(), now_ms=now_ms)
    if not is_end:
        text = f"may be away for {until_text(until_ms, now_ms)}"
    else:
        text = "its maintenance is over" if was_away else "it was in no maintenance"
    row = {"target": target.text, "untilMillis": None if is_end else until_ms}
    tell_change([f"{name}: {text}"], row, as_json=as_json, dry_run=dry_run)
    return DONE


def _list_maintenance(
    records: str | None, config: Path | None, *, as_json: bool
) -> int:
    with open_records(records, config) as store:
        found = read_maintenance(store)
    if as_json:
        rows = [
            {"target": target.text, "untilMillis": one.until_ms, "by": one.by}
            for target, one in found.items()
        ]
        echo_json({"maintenance": rows})
        return DONE
    now_ms = wall_ms()
    lines = [
        f"{target.text}: {_end_text(one.until_ms, now_ms)}, by {one.by}"
        for target, one in found.items()
    ]
    click.echo(lines_text(lines or ["0 hosts and replicas are in maintenance"]))
    return DONE


def _end_text(until_ms: int, now_ms: int) -> str:
    if now_ms < until_ms:
        return f"for {until_text(until_ms, now_ms)}"
    return f"over, {moment_text(until_ms, now_ms)}"
