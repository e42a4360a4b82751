"""
``pystore admin``: the nodes of a host, with mqadmin's commands for broker containers,
and all hosts of the controllers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pystore.cli.admin.client import addresses_option, ask, ask_leader
from pystore.cli.lib.exit_codes import DONE
from pystore.cli.lib.group import json_option
from pystore.cli.lib.output import echo_json, pairs_text, table_text
from pystore.controller.client.host_descriptions import hosts_page_of
from pystore.controller.protocol.host_descriptions import HostDescription, HostsPage
from pystore.errors import InvalidError
from pystore.net.address import parse_address
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.errors import NoAnswer
from pystore.remoting.host_headers import (
    AddBrokerRequest,
    DescribeHostsRequest,
    RemoveBrokerRequest,
)
from pystore.remoting.json_body import parse_body, read_object
from pystore.text import count_text, size_text

__all__ = ["add_broker", "describe_hosts", "remove_broker"]


def _address(_: click.Context, __: click.Parameter, value: str) -> str:
    if not value.strip(" ;"):
        # Such as of a variable of the shell that is not set.
        raise click.BadParameter(f"{value!r} names no HOST:PORT")
    try:
        parse_address(value)
    except InvalidError as error:
        # Wrong usage, before any request is sent.
        raise click.BadParameter(str(error)) from error
    return value


_host = click.option(
    "-c",
    "--brokerContainerAddr",
    "host",
    required=True,
    callback=_address,
    metavar="HOST:PORT",
    help="The host port.",
)
_dry_run = click.option(
    "--dry-run", "is_dry_run", is_flag=True, help="Ask what would be done."
)


@click.command(
    "addBroker",
    short_help="Add a replica of a set to a host.",
    epilog="\b\nExample: with the settings of a file here\n  pystore admin addBroker "
    "-c 10.0.0.14:10811 --file broker-a.conf\n",
)
@_host
@click.option(
    "-b",
    "--brokerConfigPath",
    "path",
    default="",
    metavar="PATH",
    help="A broker.conf on the host, below its store root.",
)
@click.option(
    "--file",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A broker.conf here, which is sent.",
)
@_dry_run
@json_option
def add_broker(
    *, host: str, path: str, file: Path | None, is_dry_run: bool, as_json: bool
) -> int:
    """
    Start a node in a running host, which has it after a restart, too. The host chooses
    port and place of the store if the file names none.
    """
    if bool(path) == (file is not None):
        raise click.UsageError("give the settings: -b PATH on the host, or --file FILE")
    body = b"" if file is None else file.read_bytes()
    header = AddBrokerRequest(path, is_dry_run)
    answer = _ordered(host, RequestCode.ADD_BROKER, header, body)
    done = _done(answer)
    if as_json:
        echo_json({"host": host, "dryRun": is_dry_run, "note": answer.remark, **done})
    elif not done:
        click.echo(f"{host}: {answer.remark}")
    else:
        verb = "would add" if is_dry_run else "has added"
        click.echo(
            f"{host} {verb} {done['node']} at {done['address']}, with its store in "
            f"{done['store']}"
        )
    return DONE


@click.command(
    "removeBroker",
    short_help="Remove a replica from a host.",
    epilog="\b\nExample:\n  pystore admin removeBroker -c 10.0.0.14:10811 "
    "-b DefaultCluster:broker-a:3\n",
)
@_host
@click.option(
    "-b",
    "--brokerIdentity",
    "identity",
    required=True,
    metavar="CLUSTER:NAME:ID",
    help="The replica; id 0: whichever it has.",
)
@click.option(
    "--force",
    "is_forced",
    is_flag=True,
    help="Also a master from which no other broker takes over.",
)
@click.option(
    "--delete-store",
    "deletes_store",
    is_flag=True,
    help="Delete the files of its store; otherwise they stay.",
)
@_dry_run
@json_option
def remove_broker(
    *,
    host: str,
    identity: str,
    is_forced: bool,
    deletes_store: bool,
    is_dry_run: bool,
    as_json: bool,
) -> int:
    """
    Close a node of a running host for good: it is not there after a restart. A master
    hands over first. The controllers keep its id until cleanBrokerMetadata.
    """
    cluster, name, broker_id = _identity(identity)
    header = RemoveBrokerRequest(
        name, cluster, broker_id, is_forced, deletes_store, is_dry_run
    )
    answer = _ordered(host, RequestCode.REMOVE_BROKER, header)
    done = _done(answer)
    if as_json:
        echo_json({"host": host, "dryRun": is_dry_run, "note": answer.remark, **done})
    elif not done:
        click.echo(f"{host}: {answer.remark}")
    else:
        verb = "would remove" if is_dry_run else "has removed"
        files = "deleted" if deletes_store else "kept"
        click.echo(f"{host} {verb} {done['node']}; {done['store']} is {files}")
    return DONE


@click.command(
    "describeHosts",
    short_help="Show all hosts and what they carry.",
    epilog="\b\nExample:\n  pystore admin describeHosts -a 127.0.0.1:9878\n",
)
@addresses_option(
    "-a",
    "--controllerAddress",
    "controllers",
    help_text="Controllers; the first one that knows the leader is enough.",
)
@json_option
def describe_hosts(controllers: tuple[str, ...], *, as_json: bool) -> int:
    """
    Print the hosts with a host port: rack, disk, and the replicas that each carries.
    """
    pages: list[HostsPage] = []
    header = DescribeHostsRequest()
    while True:
        answer = ask_leader(controllers, RequestCode.DESCRIBE_HOSTS, header)
        page, header = hosts_page_of(answer)
        pages.append(page)
        if not header.after_host:
            break
    hosts = [each for one in pages for each in one.hosts]
    led_ms = min(one.led_ms for one in pages)
    may_replace = all(one.may_replace for one in pages)
    if as_json:
        found = {"ledMillis": led_ms, "mayReplaceMaster": may_replace}
        echo_json({**found, "hosts": list(map(_row, hosts))})
    else:
        led = f"for {led_ms / 1000:,.1f} s"
        if not may_replace:
            led += ": others may be there that it does not know yet"
        pairs = [("the controller leads", led), ("hosts", count_text(len(hosts)))]
        header_names = ("host", "rack", "alive", "free", "disk", "replicas")
        rows = list(map(_line, hosts))
        table = [table_text(header_names, rows)] if rows else []
        click.echo("\n\n".join([pairs_text(pairs), *table]))
    return DONE


def _ordered(
    host: str,
    code: RequestCode,
    header: AddBrokerRequest | RemoveBrokerRequest,
    body: bytes = b"",
) -> RemotingCommand:
    try:
        return ask(host, code, header, body)
    except NoAnswer as error:
        # It was asked, and may have done it.
        raise NoAnswer(
            f"{error}: whether it is done, `pystore admin describeHosts` says"
        ) from error


def _done(answer: RemotingCommand) -> dict[str, Any]:
    """
    Returns what was done; nothing: it is under way.
    """
    return read_object(parse_body(answer.body), "answer") if answer.body else {}


def _identity(text: str) -> tuple[str, str, int]:
    parts = [one.strip() for one in text.split(":")]
    number = parts[-1]
    if len(parts) == 3 and all(parts) and number.isascii() and number.isdigit():
        return parts[0], parts[1], int(number[:18])
    raise click.BadParameter(
        f"{text!r}: expected CLUSTER:NAME:ID", param_hint="--brokerIdentity"
    )


def _row(one: HostDescription) -> dict[str, Any]:
    return {
        "address": one.address,
        "rack": one.rack,
        "alive": one.is_alive,
        "sinceMillis": one.since_ms,
        "totalBytes": one.total_bytes,
        "freeBytes": one.free_bytes,
        "diskUsedPercent": one.used_percent,
        "segmentsAddress": one.segments_address,
        "replicas": [
            {
                "clusterName": each.cluster,
                "brokerName": each.set_name,
                "brokerId": each.broker_id,
                "brokerAddress": each.address,
                "state": each.state,
            }
            for each in one.replicas
        ],
    }


def _line(one: HostDescription) -> tuple[str, ...]:
    used = one.used_percent
    carried = (
        f"{each.set_name} {each.broker_id or '-'} ({each.state})"
        for each in one.replicas
    )
    return (
        one.address,
        one.rack or "-",
        "yes" if one.is_alive else "no",
        size_text(one.free_bytes),
        f"{used} %" if used >= 0 else "-",
        ", ".join(carried) or "none",
    )
