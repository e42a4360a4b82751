"""
``pystore admin``: the last events of a broker set.
"""

from __future__ import annotations

import json

import click

from pystore.cli.admin.client import addresses_option, ask_leader, cluster_option
from pystore.cli.lib.exit_codes import DONE
from pystore.cli.lib.group import json_option
from pystore.cli.lib.output import echo_json
from pystore.remoting.codes import RequestCode
from pystore.remoting.operator_headers import BrokerSetEventsRequest

__all__ = ["events"]


@click.command(
    "events",
    short_help="Show what happened to a set.",
    epilog="\b\nExample:\n  pystore admin events -a 127.0.0.1:9878 broker-a\n",
)
@addresses_option(
    "-a",
    "--controllerAddress",
    "controllers",
    help_text="Controllers; the first one that knows the leader is enough.",
)
@click.argument("name", metavar="SET")
@cluster_option
@json_option
def events(
    controllers: tuple[str, ...], *, name: str, cluster: str, as_json: bool
) -> int:
    """
    Print the last committed changes and refusals of SET, oldest first: when, the epoch
    then, what changed, and who asked. They are kept in the record store, so they are
    from all controllers that led.
    """
    header = BrokerSetEventsRequest(name, cluster)
    answer = ask_leader(controllers, RequestCode.BROKER_SET_EVENTS, header)
    found = [json.loads(one) for one in answer.body.splitlines()]
    if as_json:
        echo_json({"brokerName": name, "events": found})
        return DONE
    for one in found:
        at = one["time"].replace("T", " ")
        click.echo(f"{at}  epoch {one['masterEpoch']:<4}  {one['text']}")
    if not found:
        click.echo("no events")
    return DONE
