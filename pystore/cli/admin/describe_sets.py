"""
``pystore admin``: all broker sets at once, from a controller of pystore.
"""

from __future__ import annotations

from typing import Any

import click

from pystore.cli.admin.client import addresses_option, ask_leader
from pystore.cli.lib.exit_codes import BAD, DONE
from pystore.cli.lib.group import json_option
from pystore.cli.lib.output import echo_json, pairs_text, table_text
from pystore.controller.client.set_descriptions import page_of
from pystore.controller.protocol.set_descriptions import (
    BrokerDescription,
    SetDescription,
    SetsPage,
)
from pystore.remoting.codes import RequestCode
from pystore.remoting.operator_headers import DescribeSetsRequest
from pystore.text import count_text

__all__ = ["describe_sets"]

_controllers = addresses_option(
    "-a",
    "--controllerAddress",
    "controllers",
    help_text="Controllers; the first one that knows the leader is enough.",
)


@click.command(
    "describeSets",
    short_help="Show all sets and their brokers.",
    epilog="\b\nExample:\n  pystore admin describeSets -a 127.0.0.1:9878\n",
)
@_controllers
@json_option
def describe_sets(controllers: tuple[str, ...], *, as_json: bool) -> int:
    """
    Print all sets: each broker with whether it is alive and since when, where its log
    begins and ends, its standing and how full its disk is. The exit code is 1 if the
    record of a set is damaged.
    """
    pages: list[SetsPage] = []
    header = DescribeSetsRequest()
    while True:
        answer = ask_leader(controllers, RequestCode.DESCRIBE_SETS, header)
        page, header = page_of(answer)
        pages.append(page)
        if not (header.after_cluster or header.after_name):
            break
    # Another controller may have led since the first page.
    led_ms = min(one.led_ms for one in pages)
    may_replace = all(one.may_replace for one in pages)
    sets = [each for one in pages for each in one.sets]
    damaged = ["/".join(each) for one in pages for each in one.damaged]
    if as_json:
        found = {"ledMillis": led_ms, "mayReplaceMaster": may_replace}
        rows = list(map(_set_row, sets))
        echo_json({**found, "sets": rows, "damaged": damaged})
    else:
        click.echo(_text(led_ms, sets, damaged, may_replace=may_replace))
    return BAD if damaged else DONE


def _set_row(one: SetDescription) -> dict[str, Any]:
    return {
        "clusterName": one.cluster,
        "brokerName": one.name,
        "version": one.version,
        "masterBrokerId": one.master_id,
        "masterEpoch": one.epoch,
        "syncStateSetEpoch": one.set_epoch,
        "copies": one.copies,
        "wantedCopies": one.wanted_copies,
        "brokers": list(map(_broker_row, one.brokers)),
    }


def _broker_row(one: BrokerDescription) -> dict[str, Any]:
    return {
        "brokerId": one.broker_id,
        "brokerAddress": one.address,
        "host": one.host,
        "alive": one.is_alive,
        "sinceMillis": one.since_ms,
        "incarnation": one.incarnation,
        "beginOffset": one.begin.offset,
        "filling": one.begin.is_filling,
        "epoch": one.end.epoch,
        "endOffset": one.end.end,
        "standing": one.standing.value,
        "learner": one.is_learner,
        "inSync": one.is_in_sync,
        "candidate": one.is_candidate,
        "diskUsedPercent": one.disk_used_percent,
        "diskProblem": one.disk_problem,
        "ill": one.is_ill,
    }


def _text(
    led_ms: int,
    sets: list[SetDescription],
    damaged: list[str],
    *,
    may_replace: bool,
) -> str:
    led = f"for {_seconds_text(led_ms)}"
    if not may_replace:
        led += ": who is not alive is not known yet"
    pairs = [("the controller leads", led), ("sets", count_text(len(sets)))]
    pairs += [("damaged record", one) for one in damaged]
    header = (
        "set", "copies", "id", "address", "alive", "for", "in sync", "begin", "end",
        "disk", "notes",
    )  # fmt: skip
    rows = [_line(one, each) for one in sets for each in one.brokers]
    return "\n\n".join(
        [pairs_text(pairs), *([table_text(header, rows)] if rows else [])]
    )


def _line(one: SetDescription, broker: BrokerDescription) -> tuple[str, ...]:
    notes = [
        "master" if broker.broker_id == one.master_id else "",
        "learner" if broker.is_learner else "",
        "filling" if broker.begin.is_filling else "",
        "ill" if broker.is_ill else "",
        broker.standing.value if broker.standing.value != "sound" else "",
        broker.disk_problem,
    ]
    used = broker.disk_used_percent
    return (
        f"{one.name} of {one.cluster}",
        str(one.wanted_copies),
        str(broker.broker_id),
        broker.address or "-",
        "yes" if broker.is_alive else "no",
        _seconds_text(broker.since_ms),
        "yes" if broker.is_in_sync else "no",
        _offset_text(broker.begin.offset),
        _offset_text(broker.end.end),
        f"{used} %" if used >= 0 else "-",
        ", ".join(filter(None, notes)) or "-",
    )


def _offset_text(offset: int) -> str:
    return count_text(offset) if offset >= 0 else "-"


def _seconds_text(ms: int) -> str:
    return f"{ms / 1000:,.1f} s"
