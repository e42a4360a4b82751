"""
``pystore admin``: commands for controllers themselves.
"""

from __future__ import annotations

import time

import click

from pystore.cli.admin.client import (
    addresses_option,
    ask_each,
    ask_leader,
    identified_metadata,
    metadata,
)
from pystore.cli.lib.exit_codes import DONE, UNFINISHED
from pystore.cli.lib.group import json_option
from pystore.cli.lib.output import echo_json, pairs_text
from pystore.controller.server.config import properties_text
from pystore.errors import UnavailableError
from pystore.remoting.codes import RequestCode
from pystore.rocketmq.properties_file import parse_properties_text

__all__ = [
    "get_controller_config",
    "get_controller_metadata",
    "transfer_controller",
    "update_controller_config",
]

_TRANSFER_S = 15.0
_POLL_S = 0.1

_controllers = addresses_option(
    "-a",
    "--controllerAddress",
    "controllers",
    help_text="Controllers, with ; between them.",
)


@click.command(
    "getControllerMetaData",
    short_help="Show the leading controller.",
    epilog="\b\nExample:\n  pystore admin getControllerMetaData -a 127.0.0.1:9878\n",
)
@_controllers
@json_option
def get_controller_metadata(controllers: tuple[str, ...], *, as_json: bool) -> int:
    """
    Ask the first controller of the list that answers for the leader and the other
    controllers.
    """
    found, cluster_id = identified_metadata(controllers)
    peers = [one for one in (found.peers or "").split(";") if one]
    if as_json:
        echo_json(
            {
                "controllerGroup": found.group,
                "controllerLeaderId": found.controller_leader_id,
                "controllerLeaderAddress": found.controller_leader_address,
                "isLeader": found.is_leader,
                "peers": peers,
                "clusterId": cluster_id or None,
            }
        )
        return DONE
    click.echo(
        pairs_text(
            [
                ("group", found.group or "-"),
                ("leader id", found.controller_leader_id or "-"),
                ("leader", found.controller_leader_address or "no leader"),
                ("peers", "\n".join(peers) or "-"),
                ("cluster id", cluster_id or "-"),
            ]
        )
    )
    return DONE


@click.command(
    "getControllerConfig",
    short_help="Show settings of controllers.",
    epilog="\b\nExample:\n  pystore admin getControllerConfig -a 127.0.0.1:9878\n",
)
@_controllers
@json_option
def get_controller_config(controllers: tuple[str, ...], *, as_json: bool) -> int:
    """
    Print the settings of each controller of the list.
    """
    answers, problems = ask_each(controllers, RequestCode.GET_CONTROLLER_CONFIG)
    found = {one: it.body.decode(errors="replace") for one, it in answers.items()}
    if as_json:
        tables = {one: parse_properties_text(text, one) for one, text in found.items()}
        notes = {one: _notes(text) for one, text in found.items()}
        echo_json({"controllers": tables, "notes": notes})
        return _ended(problems)
    for one, text in found.items():
        click.echo(f"controller {one}")
        rows = sorted(parse_properties_text(text, one).items())
        click.echo(pairs_text((f"  {name}", value or "-") for name, value in rows))
        for note in _notes(text):
            click.echo(f"  {note}")
    return _ended(problems)


def _ended(problems: list[str]) -> int:
    """
    Names the controllers that did not answer; returns the exit code.
    """
    for one in problems:
        click.echo(f"pystore: {one}", err=True)
    return UNFINISHED if problems else DONE


def _notes(text: str) -> list[str]:
    """
    Returns where changes differ from the configuration of a controller.
    """
    return [one[2:] for one in text.splitlines() if one.startswith("# ")]


@click.command(
    "updateControllerConfig",
    short_help="Change a setting of controllers.",
    epilog="\b\nExample:\n  pystore admin updateControllerConfig "
    "-a 127.0.0.1:9878 -k enableElectUncleanMaster -v true\n",
)
@_controllers
@click.option("-k", "--key", required=True, metavar="NAME", help="Name of the setting.")
@click.option("-v", "--value", required=True, help="The new value.")
@json_option
def update_controller_config(
    controllers: tuple[str, ...], *, key: str, value: str, as_json: bool
) -> int:
    """
    Change a setting of each controller of the list. Controllers of pystore that share
    their records all take it, those of RocketMQ only if they are listed.
    """
    body = properties_text({key: value}).encode()
    answers, problems = ask_each(
        controllers, RequestCode.UPDATE_CONTROLLER_CONFIG, body=body
    )
    notes = {one: it.remark for one, it in answers.items() if it.remark}
    if as_json:
        told = {"controllers": list(answers), "key": key, "value": value}
        echo_json({**told, "notes": notes})
        return _ended(problems)
    if answers:
        click.echo(f"{key}={value} at {', '.join(answers)}")
    for one, note in notes.items():
        click.echo(f"{one}: {note}")
    return _ended(problems)


@click.command(
    "transferController",
    short_help="Let another controller lead.",
    epilog="\b\nExample:\n  pystore admin transferController -a 10.0.0.1:9878\n",
)
@_controllers
@json_option
def transfer_controller(controllers: tuple[str, ...], *, as_json: bool) -> int:
    """
    Make the leading controller give up, so that another waiting controller leads.
    Masters continue meanwhile.
    """
    before, _ = identified_metadata(controllers)
    ask_leader(controllers, RequestCode.TRANSFER_CONTROLLER)
    peers = {*controllers, *(one for one in (before.peers or "").split(";") if one)}
    old = before.controller_leader_address
    new = _wait_for_another(sorted(peers), old)
    if new is None:
        click.echo(
            f"pystore: {old} gave up, and no other controller leads yet; check again "
            "with getControllerMetaData",
            err=True,
        )
        return UNFINISHED
    if as_json:
        echo_json({"from": old, "to": new})
    else:
        click.echo(f"{new} leads instead of {old}")
    return DONE


def _wait_for_another(peers: list[str], old: str | None) -> str | None:
    deadline = time.monotonic() + _TRANSFER_S
    while time.monotonic() < deadline:
        for one in peers:
            try:
                found = metadata(one)
            except UnavailableError:
                # It may be the former leader.
                continue
            if found.is_leader and one != old:
                return found.controller_leader_address
        time.sleep(_POLL_S)
    return None
