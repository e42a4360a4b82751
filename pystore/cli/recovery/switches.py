"""
``pystore recovery``: switches and settings of the whole cluster.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from pystore.autorecovery.settings import RecoverySettings
from pystore.autorecovery.status_view import leading_auditor, read_activity
from pystore.cli.lib.durations import parse_duration, since_text, span_text
from pystore.cli.lib.exit_codes import BAD, DONE
from pystore.cli.lib.group import json_option
from pystore.cli.lib.output import echo_json, pairs_text
from pystore.cli.recovery.records import (
    dry_run_option,
    open_queue,
    open_records,
    operator_name,
    records_options,
    tell_change,
)
from pystore.clocks import wall_ms
from pystore.text import camel, json_keys

__all__ = ["auditor", "delay", "disable", "enable", "kick", "settings"]


@click.command(
    short_help="Let workers take segments again.",
    epilog="\b\nExample:\n  pystore recovery enable --records /data/records\n",
)
@records_options
@dry_run_option
@json_option
def enable(
    *, records: str | None, config: Path | None, dry_run: bool, as_json: bool
) -> int:
    """
    End what `disable` began, at once for all workers. Pauses stay.
    """
    with open_queue(records, config) as queue:
        was_enabled = queue.is_enabled()
        if not dry_run:
            queue.enable()
    text = "repair is enabled" + (", as it was" if was_enabled else "")
    row = {"enabled": True, "wasEnabled": was_enabled}
    tell_change([text], row, as_json=as_json, dry_run=dry_run)
    return DONE


@click.command(
    short_help="Let no worker take a segment.",
    epilog="\b\nExample:\n  pystore recovery disable --records /data/records\n",
)
@records_options
@dry_run_option
@json_option
def disable(
    *, records: str | None, config: Path | None, dry_run: bool, as_json: bool
) -> int:
    """
    Let no worker take another segment from now on, without an end; repairs that run go
    on. `pystore recovery pause repair` ends by itself.
    """
    with open_queue(records, config) as queue:
        was_enabled = queue.is_enabled()
        if not dry_run:
            queue.disable(operator_name())
    text = "repair is disabled" + ("" if was_enabled else ", as it was")
    row = {"enabled": False, "wasEnabled": was_enabled}
    tell_change([text], row, as_json=as_json, dry_run=dry_run)
    return DONE


@click.command(
    short_help="Ask for an audit now.",
    epilog="\b\nExample:\n  pystore recovery kick --records /data/records\n",
)
@records_options
@click.option("--force", is_flag=True, help="Mark, whatever the brake says.")
@dry_run_option
@json_option
def kick(
    *,
    records: str | None,
    config: Path | None,
    force: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """
    Ask the Auditor for an audit now.
    """
    with open_queue(records, config) as queue:
        version = None if dry_run else queue.kick(operator_name(), force=force)
    tell_change(
        ["an audit is asked for"],
        {"version": version},
        as_json=as_json,
        dry_run=dry_run,
    )
    return DONE


def _duration_or_zero(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> int | None:
    return 0 if value == "0" else parse_duration(context, parameter, value)


@click.command(
    short_help="Show or set the delay before lost replicas count.",
    epilog="\b\nExample: half an hour\n"
    "  pystore recovery delay --records /data/records 30m\n",
)
@click.argument(
    "seconds", required=False, metavar="[TIME|0]", callback=_duration_or_zero
)
@records_options
@dry_run_option
@json_option
def delay(
    *,
    seconds: int | None,
    records: str | None,
    config: Path | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """
    Show how long a replica is dead before its segments are marked, or set it: seconds,
    or 90s, 30m, 2h. It counts from the loss, so a shorter delay may end at once. The
    same delay again asks for an audit.
    """
    with open_queue(records, config) as queue:
        before = queue.settings().delay_s
        if seconds is not None and not dry_run:
            queue.change_settings({"delay_s": seconds})
    if seconds is None:
        if as_json:
            echo_json({"delaySeconds": before})
        else:
            click.echo(f"the delay is {_span(before)}")
        return DONE
    tell_change(
        [f"the delay is {_span(seconds)}, was {_span(before)}"],
        {"delaySeconds": seconds, "wasSeconds": before},
        as_json=as_json,
        dry_run=dry_run,
    )
    return DONE


def _span(seconds: int) -> str:
    return span_text(1000 * seconds)


@click.command(
    short_help="Show or change the settings.",
    epilog="\b\nExample: two limits\n  pystore recovery settings --records "
    "/data/records repair_bytes_per_s=50000000 worker_slots=4\n",
)
@click.argument("changes", nargs=-1, metavar="[NAME=VALUE]...")
@records_options
@dry_run_option
@json_option
def settings(
    *,
    changes: tuple[str, ...],
    records: str | None,
    config: Path | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """
    Print the settings of AutoRecovery in this cluster, or change some of them. All
    workers and the Auditor have the new ones soon.
    """
    values = _values(changes)
    with open_queue(records, config) as queue:
        before = queue.settings()
        # A dry run finds wrong values, too.
        after = RecoverySettings(**{**_known(before), **values})
        if values and not dry_run:
            after = queue.change_settings(values)
    if not values:
        if as_json:
            echo_json({"settings": json_keys(_known(after))})
        else:
            click.echo(pairs_text((n, _text(v)) for n, v in _known(after).items()))
        return DONE
    old, new = _known(before), _known(after)
    lines = [f"{name} is {_text(new[name])}, was {_text(old[name])}" for name in values]
    row = {"settings": {camel(name): new[name] for name in values}}
    tell_change(lines, row, as_json=as_json, dry_run=dry_run)
    return DONE


def _values(changes: tuple[str, ...]) -> dict[str, Any]:
    kinds = {name: type(one) for name, one in _known(RecoverySettings()).items()}
    values: dict[str, Any] = {}
    for change in changes:
        name, equals, text = change.partition("=")
        if not equals or name not in kinds:
            raise click.UsageError(
                f"{change!r} changes no setting: give NAME=VALUE, with a NAME that "
                "`pystore recovery settings` prints"
            )
        if kinds[name] is bool and text.lower() in ("true", "false"):
            values[name] = text.lower() == "true"
        elif kinds[name] is int and text.isascii() and text.isdigit():
            values[name] = int(text[:20])
        else:
            kind = "true or false" if kinds[name] is bool else "a number from 0 on"
            raise click.UsageError(f"{change!r}: {name} is {kind}")
    return values


def _known(one: RecoverySettings) -> dict[str, Any]:
    return {
        field.name: getattr(one, field.name)
        for field in fields(RecoverySettings)
        if field.name != "more"
    }


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@click.command(
    short_help="Show the leading Auditor.",
    epilog="\b\nExample:\n  pystore recovery auditor --records /data/records\n",
)
@records_options
@json_option
def auditor(*, records: str | None, config: Path | None, as_json: bool) -> int:
    """
    Print which process is the Auditor, and what it does or waits for. The exit code is
    1 if there is none: then nothing is marked.
    """
    with open_records(records, config) as store:
        name, activity = leading_auditor(store), read_activity(store)
    if as_json:
        said = None
        if activity is not None:
            said = {
                "waitsFor": activity.waits_for,
                "sinceMillis": activity.since_ms,
                **activity.more,
            }
        echo_json({"auditor": name or None, "activity": said})
    elif not name:
        click.echo("no Auditor: lost and damaged copies are not marked")
    else:
        pairs = [("auditor", name)]
        if activity is not None and activity.waits_for:
            pairs.append(("waits for", activity.waits_for))
        if activity is not None and activity.since_ms:
            pairs.append(("for", since_text(activity.since_ms, wall_ms())))
        click.echo(pairs_text(pairs))
    return DONE if name else BAD
