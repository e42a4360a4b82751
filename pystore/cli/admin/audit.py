"""
``pystore admin``: what operators did.
"""

from __future__ import annotations

import json

import click

from pystore.cli.admin.client import addresses_option, ask_leader
from pystore.cli.lib.exit_codes import DONE
from pystore.cli.lib.group import json_option
from pystore.cli.lib.output import echo_json
from pystore.remoting.codes import RequestCode
from pystore.remoting.operator_headers import ReadAuditRequest

__all__ = ["audit"]

_COUNT_MAX = 1_000


@click.command(
    "audit",
    short_help="Show what operators changed.",
    epilog="\b\nExample:\n  pystore admin audit -a 127.0.0.1:9878\n",
)
@addresses_option(
    "-a",
    "--controllerAddress",
    "controllers",
    help_text="Controllers; the first one that knows the leader is enough.",
)
@click.option(
    "--last",
    "count",
    type=click.IntRange(1, _COUNT_MAX),
    default=20,
    show_default=True,
    metavar="N",
    help="So many lines.",
)
@json_option
def audit(controllers: tuple[str, ...], *, count: int, as_json: bool) -> int:
    """
    Print the last accepted orders of operators, oldest first: when, who, from where,
    and what was there before and after.
    """
    header = ReadAuditRequest(count)
    answer = ask_leader(controllers, RequestCode.READ_AUDIT, header)
    found = [json.loads(one) for one in answer.body.splitlines()]
    if as_json:
        echo_json({"orders": found})
        return DONE
    for one in found:
        at, user = one["time"].replace("T", " "), one["user"] or "an unknown user"
        click.echo(f"{at}  {user} at {one['address']}: {one['command']}")
        click.echo(f"    {one['subject']}: {one['before']} -> {one['after']}")
    if not found:
        click.echo("no orders")
    return DONE
