"""
``pystore recovery``: hosts that are emptied or stopped, replicas that are made anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from pystore.autorecovery.decommission import Decommission, DrainPlan, DrainProgress
from pystore.autorecovery.may_stop import may_stop
from pystore.autorecovery.replacement_record import ReplacementKey, ReplacementReason
from pystore.autorecovery.replacement_requests import (
    ask_replacement,
    cancel_replacement,
)
from pystore.autorecovery.replacement_state import is_wiped
from pystore.autorecovery.set_copies import broker_of
from pystore.cli.lib.exit_codes import BAD, DONE
from pystore.cli.lib.group import json_option
from pystore.cli.lib.output import echo_json, lines_text
from pystore.cli.recovery.host_options import host_argument, hosts_options, open_hosts
from pystore.cli.recovery.records import (
    dry_run_option,
    open_records,
    operator_name,
    records_options,
    tell_change,
)
from pystore.clocks import wall_ms
from pystore.errors import FormatError, InvalidError
from pystore.text import size_text

__all__ = ["decommission", "may_stop_command", "replace_command"]


@click.command(
    short_help="Empty a host for good.",
    epilog="\b\nExample: a host that serves\n  pystore recovery decommission "
    "-a 10.0.0.1:9878 --records /data/records 10.0.0.14:10811 --drain\n",
)
@host_argument
@click.option("--drain", is_flag=True, help="Also if it is alive, while it serves.")
@click.option("--cancel", is_flag=True, help="Let the replicas stay that are left.")
@click.option(
    "--strict", "is_strict", is_flag=True, help="Not if anything would stay there."
)
@hosts_options
@records_options
@dry_run_option
@json_option
def decommission(
    *,
    host: str,
    drain: bool,
    cancel: bool,
    is_strict: bool,
    controllers: tuple[str, ...],
    records: str | None,
    config: Path | None,
    dry_run: bool,
    as_json: bool,
    **access: Any,  # noqa: ANN401
) -> int:
    """
    Make each replica of a host anew on another one, then remove it: the Auditor does
    it. The same command again shows how far it is, and ends it once the host is empty
    and stopped. The exit code is 1 if something stays there.
    """
    if cancel and (drain or is_strict):
        raise click.UsageError("--cancel goes without --drain and --strict")
    with (
        open_records(records, config) as store,
        open_hosts(controllers, **access) as (asked, hosts),
    ):
        order = Decommission(store, asked, hosts, clock_ms=wall_ms, by=operator_name())
        if cancel:
            was_asked = dry_run or order.cancel(host)
            text = f"{host} is emptied no more" + ("" if was_asked else ", as before")
            row = {"host": host, "wasEmptied": was_asked}
            tell_change([text], row, as_json=as_json, dry_run=dry_run)
            return DONE
        found = order.progress(host)
        if found.is_asked and found.is_done and not hosts.all_hosts()[host].is_alive:
            if not dry_run:
                order.finish(host)
            row = {"host": host, "isDone": True}
            text = f"{host} is empty, and no set knows it any more"
            tell_change([text], row, as_json=as_json, dry_run=dry_run)
            return DONE
        if dry_run:
            plan = order.plan(host)
        else:
            plan = order.start(host, drain=drain, is_strict=is_strict)
            found = order.progress(host)
    lines = [*_plan_lines(host, plan), *_progress_lines(found)]
    row = {"host": host, "isDone": found.is_done, **_plan_row(plan)}
    tell_change(lines, row, as_json=as_json, dry_run=dry_run)
    return DONE if plan.is_possible else BAD


def _plan_lines(host: str, plan: DrainPlan) -> Iterator[str]:
    if not plan.moves and not plan.blockers:
        yield f"{host} has no replica that a set needs"
    for move in plan.moves:
        yield f"{move.key.text} goes to {move.target}: {size_text(move.size)}"
    for reason, some in plan.blockers.items():
        for one in some:
            segments = f" ({', '.join(one.segments)})" if one.segments else ""
            yield f"{one.key.text} stays, {reason.value}: {one.text}{segments}"


def _progress_lines(found: DrainProgress) -> Iterator[str]:
    for key, one in found.left.items():
        if one is not None:
            problem = f": {one.problem}" if one.problem else ""
            yield f"{key.text} is {one.phase.value}{problem}"
    if found.is_asked and found.is_done:
        yield "it is empty: stop it, then give this command again"


def _plan_row(plan: DrainPlan) -> dict[str, Any]:
    return {
        "moves": [
            {"replica": one.key.text, "target": one.target, "bytes": one.size}
            for one in plan.moves
        ],
        "blockers": [
            {
                "replica": one.key.text,
                "reason": reason.value,
                "text": one.text,
                "segments": list(one.segments),
            }
            for reason, some in plan.blockers.items()
            for one in some
        ],
    }


@click.command(
    "may-stop",
    short_help="Say whether a host may be stopped now.",
    epilog="\b\nExample:\n  pystore recovery may-stop -a 10.0.0.1:9878 "
    "10.0.0.14:10811\n",
)
@host_argument
@click.option(
    "--min-in-sync",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Members in sync that a set needs, the master among them; by default 1.",
)
@hosts_options
@json_option
def may_stop_command(
    *,
    host: str,
    min_in_sync: int,
    controllers: tuple[str, ...],
    as_json: bool,
    **access: Any,  # noqa: ANN401
) -> int:
    """
    Say whether all sets of a host go on without it, and name those that do not. The
    exit code is 1 if it is needed.
    """
    with open_hosts(controllers, **access) as (asked, hosts):
        view = asked.all_sets()
        is_free, why = may_stop(view, hosts.all_hosts(), host, min_in_sync=min_in_sync)
    named = {f"{cluster}/{name}": one for (cluster, name), one in sorted(why.items())}
    if as_json:
        echo_json({"host": host, "mayStop": is_free, "sets": named})
    else:
        first = f"{host} {'may be stopped' if is_free else 'is needed'}"
        click.echo(lines_text([first, *(f"{k}: {one}" for k, one in named.items())]))
    return DONE if is_free else BAD


def _parse_replica(_: click.Context, __: click.Parameter, value: str) -> ReplacementKey:
    try:
        return ReplacementKey.parse(value)
    except FormatError as error:
        # Of a record's key, too; here it is what was typed.
        raise click.BadParameter(f"{value!r} is not CLUSTER/SET/ID") from error


@click.command(
    "replace",
    short_help="Make a lost or wiped replica anew.",
    epilog="\b\nExample: broker 2 of a set\n  pystore recovery replace "
    "-a 10.0.0.1:9878 --records /data/records DefaultCluster/broker-a/2\n",
)
@click.argument("replica", metavar="CLUSTER/SET/ID", callback=_parse_replica)
@click.option("--cancel", is_flag=True, help="End it: the new replica goes again.")
@hosts_options
@records_options
@dry_run_option
@json_option
def replace_command(
    *,
    replica: ReplacementKey,
    cancel: bool,
    controllers: tuple[str, ...],
    records: str | None,
    config: Path | None,
    dry_run: bool,
    as_json: bool,
    **access: Any,  # noqa: ANN401
) -> int:
    """
    Make a replica anew on another host without waiting for the delay: one that is dead,
    or whose store is empty or another one. The Auditor does it.
    """
    by, now_ms = operator_name(), wall_ms()
    with open_records(records, config) as store:
        if cancel:
            is_new = dry_run or cancel_replacement(store, replica, by, now_ms)
            text = f"{replica.text} is replaced no more" + (
                "" if is_new else ", as before"
            )
        else:
            with open_hosts(controllers, **access) as (asked, _):
                found = asked.one_set(*replica.names)
            broker = None if found is None else broker_of(found, replica.broker_id)
            if broker is None:
                raise InvalidError(f"there is no broker {replica.text}")
            if broker.is_alive and not is_wiped(broker):
                raise InvalidError(
                    f"broker {replica.text} is alive: drain its host with "
                    "`pystore recovery decommission --drain`, or stop it first"
                )
            kind = (
                ReplacementReason.WIPED if broker.is_alive else ReplacementReason.LOST
            )
            is_new = dry_run or ask_replacement(
                store, replica, kind, by=by, now_ms=now_ms
            )
            text = f"{replica.text} is made anew" + (
                "" if is_new else ", as asked before"
            )
    row = {"replica": replica.text, "isNew": is_new, "isCancelled": cancel}
    tell_change([text], row, as_json=as_json, dry_run=dry_run)
    return DONE
