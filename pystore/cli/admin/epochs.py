"""
``pystore admin getBrokerEpoch``: the epochs of brokers' logs.
"""

from __future__ import annotations

import click

from pystore.cli.admin.client import addresses_option, ask
from pystore.cli.admin.sets import names_of_cluster
from pystore.cli.lib.exit_codes import DONE
from pystore.cli.lib.group import json_option
from pystore.cli.lib.output import echo_json, pairs_text, table_text
from pystore.errors import InvalidError
from pystore.remoting.codes import RequestCode
from pystore.remoting.controller_bodies import BrokerMemberGroup
from pystore.remoting.json_body import parse_body, read_object
from pystore.remoting.replica_bodies import EpochCache
from pystore.text import count_text

__all__ = ["get_broker_epoch"]


@click.command(
    "getBrokerEpoch",
    short_help="Show the epochs of brokers' logs.",
    epilog="\b\nExample:\n  pystore admin getBrokerEpoch -n 127.0.0.1:9876 "
    "-b broker-a\n",
)
@addresses_option("-n", "--namesrvAddr", "servers", help_text="Name server.")
@click.option("-b", "--brokerName", "name", metavar="NAME", help="A broker set.")
@click.option(
    "-c", "--clusterName", "cluster", metavar="NAME", help="All sets of a cluster."
)
@json_option
def get_broker_epoch(
    servers: tuple[str, ...], *, name: str | None, cluster: str | None, as_json: bool
) -> int:
    """
    Ask each broker of a set, or of a cluster, for the epochs of its log.
    """
    if (name is None) == (cluster is None):
        raise click.UsageError("give -b NAME or -c CLUSTER")
    names = [name] if name else names_of_cluster(servers, cluster or "")
    found = [
        (address, EpochCache.decode(ask(address, _EPOCHS).body))
        for one in names
        for _, address in sorted(_addresses(servers[0], one).items())
    ]
    if as_json:
        echo_json({"brokers": [_json(*one) for one in found]})
    else:
        click.echo("\n\n".join(_text(*one) for one in found))
    return DONE


_EPOCHS = RequestCode.GET_BROKER_EPOCH_CACHE


def _addresses(server: str, name: str) -> dict[int, str]:
    body = ask(server, RequestCode.GET_BROKER_CLUSTER_INFO).body
    info = read_object(parse_body(body), "106's answer")
    table = read_object(info.get("brokerAddrTable", {}), "brokerAddrTable")
    if name not in table:
        raise InvalidError(f"name server {server} has no broker set {name}")
    return dict(BrokerMemberGroup.from_row(table[name]).addresses)


def _json(address: str, one: EpochCache) -> dict[str, object]:
    return {
        "clusterName": one.cluster_name,
        "brokerName": one.broker_name,
        "brokerAddress": address,
        "brokerId": one.broker_id,
        "epochs": [
            {"epoch": epoch, "startOffset": start, "endOffset": end}
            for epoch, start, end in _rows(one)
        ],
    }


def _rows(one: EpochCache) -> list[tuple[int, int, int]]:
    """
    Returns the epochs; the last one ends at the end of the log.
    """
    return [
        (row.epoch, row.start_offset, min(row.end_offset, one.max_offset))
        for row in one.epochs
    ]


def _text(address: str, one: EpochCache) -> str:
    pairs = [
        ("broker", f"{one.broker_name} {one.broker_id} at {address}"),
        ("cluster", one.cluster_name),
    ]
    rows = [
        (str(epoch), count_text(start), count_text(end))
        for epoch, start, end in _rows(one)
    ]
    return f"{pairs_text(pairs)}\n\n{table_text(('epoch', 'start', 'end'), rows)}"
