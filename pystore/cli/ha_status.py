"""
``pystore ha-status``: asks a master for its state, without following it.
"""

from __future__ import annotations

from typing import Any

import click

from pystore.cli.lib.exit_codes import DONE, UNFINISHED
from pystore.cli.lib.group import json_option
from pystore.cli.lib.output import echo_json, pairs_text, table_text
from pystore.errors import InvalidError, RemoteViolation
from pystore.ha.slave.transport import StreamLost
from pystore.ha.status_client import (
    LEARNER_ID,
    MasterStatus,
    StatusQuery,
    ask_legacy,
    ask_v3,
)
from pystore.ha.wire.codes import CheckResult
from pystore.net.address import parse_address
from pystore.text import count_text, json_keys, size_text

__all__ = ["ha_status"]

_EXAMPLE = """\b
Example: the state of a Java master, as JSON
  pystore ha-status 10.0.0.5:10912 --protocol legacy --json
"""


def _parse(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    try:
        parse_address(value)
    except ValueError as error:
        # Wrong usage, reported before a connection is made.
        raise click.BadParameter(str(error)) from error
    return value


@click.command("ha-status", short_help="Ask a master for its state.", epilog=_EXAMPLE)
@click.argument("master", metavar="HOST:PORT", callback=_parse)
@click.option(
    "--protocol",
    type=click.Choice(["v3", "legacy"]),
    default="v3",
    show_default=True,
    help="v3 for a pystore master, legacy for RocketMQ 5.1.1 and newer in controller "
    "mode.",
)
@click.option("--cluster", default="DefaultCluster", show_default=True, help="For v3.")
@click.option("--broker-name", default="broker-a", show_default=True, help="For v3.")
@click.option(
    "--broker-id",
    type=click.IntRange(1, 2**63 - 1),
    default=None,
    metavar="N",
    help="For v3: the id of a slave that the controller knows. Its session continues.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, 3600),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for the response; a legacy master with an empty log needs 5 s.",
)
@json_option
def ha_status(
    *,
    master: str,
    protocol: str,
    cluster: str,
    broker_name: str,
    broker_id: int | None,
    timeout: float,
    as_json: bool,
) -> int:
    """
    Ask the master whose HA listener is at HOST:PORT for its epoch, the bounds of its
    log, its confirm offset and its epochs.

    The command follows nothing and changes nothing. If the master refuses, the command
    prints the reason and the exit code is 3.
    """
    if broker_id is not None and protocol == "legacy":
        raise click.UsageError(
            "--broker-id is for v3: with legacy the command is a learner"
        )
    ask = ask_v3 if protocol == "v3" else ask_legacy
    try:
        query = StatusQuery(
            master,
            cluster,
            broker_name,
            LEARNER_ID if broker_id is None else broker_id,
            int(timeout * 1000),
        )
        found = ask(query)
    except InvalidError as error:
        # A name that is too long for a frame is wrong usage.
        raise click.UsageError(str(error)) from error
    except (RemoteViolation, StreamLost) as error:
        # No connection, no HA listener, or a protocol error: the line has the cause.
        return _fail(master, f"{error}{_hint(protocol)}")
    if as_json:
        echo_json({"master": master, **_json(found)})
    elif found.result == CheckResult.SUCCESS.name:
        click.echo(_text(master, found))
    if found.result == CheckResult.SUCCESS.name:
        return DONE
    return _fail(master, _refusal_text(found))


def _fail(master: str, text: str) -> int:
    click.echo(f"pystore: {master}: {text}", err=True)
    return UNFINISHED


def _hint(protocol: str) -> str:
    other = "RocketMQ needs --protocol legacy" if protocol == "v3" else "pystore v3"
    return f"; is it the HA port of a master? {other}"


def _refusal_text(found: MasterStatus) -> str:
    parts = [f"the master refused: {found.result}"]
    parts += [f": {found.reason}"] if found.reason else []
    parts += [f"; the master is {found.redirect}"] if found.redirect else []
    if found.result == CheckResult.BROKER_ID.name:
        parts.append("; give the --broker-id of a slave of the set")
    return "".join(parts)


def _json(found: MasterStatus) -> dict[str, Any]:
    names = (
        "protocol",
        "result",
        "reason",
        "redirect",
        "broker_id",
        "epoch",
        "min_offset",
        "end_offset",
        "confirm_offset",
        "segment_size",
    )
    report = json_keys({name: getattr(found, name) for name in names})
    report["epochs"] = [
        {"epoch": epoch, "startOffset": start, "endOffset": end}
        for epoch, start, end in found.rows()
    ]
    return report


def _text(master: str, found: MasterStatus) -> str:
    pairs = [("master", master), ("protocol", found.protocol)]
    if found.broker_id is not None:
        pairs.append(("broker id", str(found.broker_id)))
    pairs += [
        ("epoch", str(found.epoch)),
        ("min offset", count_text(found.min_offset)),
        ("end offset", count_text(found.end_offset)),
        ("confirm offset", count_text(found.confirm_offset)),
    ]
    if found.segment_size is not None:
        pairs.append(("segment size", size_text(found.segment_size)))
    rows = [
        (str(epoch), count_text(start), count_text(end), count_text(end - start))
        for epoch, start, end in found.rows()
    ]
    table = (
        table_text(("epoch", "start", "end", "bytes"), rows) if rows else "no epochs"
    )
    return f"{pairs_text(pairs)}\n\n{table}"
