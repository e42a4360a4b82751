"""
``pystore admin``: mqadmin's commands for broker sets.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import click

from pystore.cli.admin.client import (
    addresses_option,
    ask,
    ask_leader,
    cluster_option,
    set_option,
)
from pystore.cli.admin.describe import show_unclean
from pystore.cli.lib.exit_codes import DONE
from pystore.cli.lib.group import json_option
from pystore.cli.lib.output import echo_json, pairs_text, table_text
from pystore.errors import InvalidError
from pystore.remoting.codes import RequestCode
from pystore.remoting.controller_bodies import ElectMasterBody, encode_broker_names
from pystore.remoting.controller_headers import (
    CleanBrokerDataRequest,
    ElectMasterRequest,
    ElectMasterResponse,
)
from pystore.remoting.fields import decode_fields
from pystore.remoting.json_body import parse_body, read_list, read_object
from pystore.remoting.operator_headers import ElectUncleanRequest
from pystore.remoting.replica_bodies import (
    BrokerReplicas,
    ReplicaIdentity,
    decode_replicas,
)

__all__ = [
    "clean_broker_metadata",
    "elect_master",
    "get_sync_state_set",
    "names_of_cluster",
]

_controllers = addresses_option(
    "-a",
    "--controllerAddress",
    "controllers",
    help_text="Controllers; the first one that knows the leader is enough.",
)


def names_of_cluster(servers: tuple[str, ...], cluster: str) -> list[str]:
    """
    Returns the sets of a cluster from a name server.

    Raises:
        InvalidError: no name server is named, or it does not know the cluster.
    """
    if not servers:
        raise InvalidError("-c needs a name server: give -n HOST:PORT")
    body = ask(servers[0], RequestCode.GET_BROKER_CLUSTER_INFO).body
    table = read_object(
        read_object(parse_body(body), "106's answer").get("clusterAddrTable", {}),
        "clusterAddrTable",
    )
    if cluster not in table:
        raise InvalidError(f"name server {servers[0]} has no cluster {cluster}")
    return sorted(read_list(table[cluster], cluster))


@click.command(
    "getSyncStateSet",
    short_help="Show the brokers in sync.",
    epilog="\b\nExample:\n"
    "  pystore admin getSyncStateSet -a 127.0.0.1:9878 -b broker-a\n",
)
@_controllers
@click.option("-b", "--brokerName", "name", metavar="NAME", help="A broker set.")
@click.option(
    "-c",
    "--clusterName",
    "cluster",
    metavar="NAME",
    help="All sets of a cluster; needs -n.",
)
@addresses_option(
    "-n", "--namesrvAddr", "servers", help_text="Name server.", is_required=False
)
@click.option(
    "-i",
    "--interval",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="Repeat at this interval, until stopped.",
)
@json_option
def get_sync_state_set(
    controllers: tuple[str, ...],
    *,
    name: str | None,
    cluster: str | None,
    servers: tuple[str, ...],
    interval: float | None,
    as_json: bool,
) -> int:
    """
    Print master, epochs and replicas of a set, or of all sets of a cluster.
    """
    if (name is None) == (cluster is None):
        raise click.UsageError("give -b NAME, or -c CLUSTER with -n HOST:PORT")
    while True:
        names = [name] if name else names_of_cluster(servers, cluster or "")
        answer = ask_leader(
            controllers,
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA,
            body=encode_broker_names(names),
        )
        _show(names, decode_replicas(answer.body), as_json=as_json)
        if interval is None:
            return DONE
        time.sleep(interval)


def _show(names: list[str], found: dict[str, BrokerReplicas], *, as_json: bool) -> None:
    unknown = [one for one in names if one not in found]
    if unknown:
        raise InvalidError(f"the controllers have no broker set {', '.join(unknown)}")
    if as_json:
        echo_json({"sets": [_json(name, one) for name, one in found.items()]})
        return
    click.echo("\n\n".join(_text(name, one) for name, one in sorted(found.items())))


def _json(name: str, one: BrokerReplicas) -> dict[str, object]:
    return {
        "brokerName": name,
        "masterBrokerId": one.master_broker_id,
        "masterAddress": one.master_address,
        "masterEpoch": one.master_epoch,
        "syncStateSetEpoch": one.sync_state_set_epoch,
        "inSync": [_replica_json(each) for each in one.in_sync],
        "notInSync": [_replica_json(each) for each in one.not_in_sync],
    }


def _replica_json(one: ReplicaIdentity) -> dict[str, object]:
    return {
        "brokerId": one.broker_id,
        "brokerAddress": one.broker_address,
        "alive": one.is_alive,
    }


def _text(name: str, one: BrokerReplicas) -> str:
    master = f"{one.master_broker_id} at {one.master_address}"
    pairs = [
        ("broker set", name),
        ("master", master if one.master_broker_id is not None else "none"),
        ("epoch", str(one.master_epoch)),
        ("SyncStateSet epoch", str(one.sync_state_set_epoch)),
    ]
    return f"{pairs_text(pairs)}\n\n{table_text(_COLUMNS, _rows(one))}"


_COLUMNS = ("id", "address", "alive", "in sync")


def _rows(one: BrokerReplicas) -> Iterator[tuple[str, ...]]:
    for is_in, replicas in ((True, one.in_sync), (False, one.not_in_sync)):
        for each in replicas:
            words = ("yes" if each.is_alive else "no", "yes" if is_in else "no")
            yield str(each.broker_id), each.broker_address, *words


@click.command(
    "electMaster",
    short_help="Elect a broker as master.",
    epilog="\b\nExample:\n  pystore admin electMaster -a 127.0.0.1:9878 "
    "-c DefaultCluster -bn broker-a -b 2\n",
)
@_controllers
@set_option
@click.option(
    "-b", "--brokerId", "broker_id", type=click.IntRange(1), required=True, metavar="N"
)
@cluster_option
@click.option(
    "--unclean",
    "is_unclean",
    is_flag=True,
    help="Also if its log lacks acknowledged records: show which; --yes elects it.",
)
@click.option(
    "--yes", "is_confirmed", is_flag=True, help="Accept the loss that --unclean shows."
)
@json_option
def elect_master(
    controllers: tuple[str, ...],
    *,
    name: str,
    broker_id: int,
    cluster: str,
    is_unclean: bool,
    is_confirmed: bool,
    as_json: bool,
) -> int:
    """
    Elect this broker and no other: it has to be alive and in sync. With --unclean it
    has to be alive only, while no other broker that lost nothing is: the range that it
    lacks is lost, and recorded. Without --yes nothing is changed, and the exit code is
    1. Controllers of RocketMQ do not support --unclean.
    """
    if is_unclean:
        header = ElectUncleanRequest(name, broker_id, cluster, is_confirmed)
        answer = ask_leader(controllers, RequestCode.ELECT_UNCLEAN, header)
        return show_unclean(answer.body, as_json=as_json)
    if is_confirmed:
        raise click.UsageError("--yes accepts the loss of --unclean: give both")
    return _elect(controllers, name, broker_id, cluster, as_json=as_json)


def _elect(
    controllers: tuple[str, ...],
    name: str,
    broker_id: int,
    cluster: str,
    *,
    as_json: bool,
) -> int:
    header = ElectMasterRequest(
        cluster, name, broker_id, designate_elect=True, invoke_time=_now_ms()
    )
    answer = ask_leader(controllers, RequestCode.CONTROLLER_ELECT_MASTER, header)
    found = decode_fields(ElectMasterResponse, answer.ext_fields)
    body = ElectMasterBody.decode(answer.body) if answer.body else None
    group = body.group if body else None
    members = sorted(group.addresses.items()) if group else []
    if as_json:
        echo_json(
            {
                "clusterName": cluster,
                "brokerName": name,
                "masterBrokerId": found.master_broker_id,
                "masterAddress": found.master_address,
                "masterEpoch": found.master_epoch,
                "syncStateSetEpoch": found.sync_state_set_epoch,
                "brokers": [
                    {"brokerId": number, "brokerAddress": address}
                    for number, address in members
                ],
            }
        )
        return DONE
    pairs = [
        ("broker set", name),
        ("master", f"{found.master_broker_id} at {found.master_address}"),
        ("epoch", str(found.master_epoch)),
        ("SyncStateSet epoch", str(found.sync_state_set_epoch)),
        ("brokers", "\n".join(f"{number} {address}" for number, address in members)),
    ]
    click.echo(pairs_text(pairs))
    return DONE


@click.command(
    "cleanBrokerMetadata",
    short_help="Remove brokers, or a set.",
    epilog="\b\nExample: brokers 2 and 3 never come back\n  pystore admin "
    "cleanBrokerMetadata -a 127.0.0.1:9878 -c DefaultCluster -bn broker-a -b '2;3'\n",
)
@_controllers
@set_option
@click.option(
    "-b",
    "--brokerControllerIdsToClean",
    "ids",
    metavar="N[;...]",
    help="Brokers to remove; without it the whole set.",
)
@click.option(
    "-c", "--clusterName", "cluster", metavar="NAME", help="Required without -l."
)
@click.option(
    "-l", "--cleanLivingBroker", "with_living", is_flag=True, help="Also live brokers."
)
@json_option
def clean_broker_metadata(
    controllers: tuple[str, ...],
    *,
    name: str,
    ids: str | None,
    cluster: str | None,
    with_living: bool,
    as_json: bool,
) -> int:
    """
    Remove brokers of a set. RocketMQ's controllers remove the whole set if -l and -b
    are given.
    """
    if not with_living and not cluster:
        raise click.UsageError("without -l the cluster is required: give -c NAME")
    if ids is not None:
        numbers = [one.strip() for one in ids.split(";") if one.strip()]
        if not numbers or not all(one.isdecimal() for one in numbers):
            raise click.UsageError("-b takes numbers with ; between them")
    header = CleanBrokerDataRequest(name, cluster, ids, with_living, _now_ms())
    ask_leader(controllers, RequestCode.CLEAN_BROKER_DATA, header)
    if as_json:
        cleaned = [int(one) for one in (ids or "").split(";") if one.strip()]
        echo_json({"brokerName": name, "clusterName": cluster, "brokerIds": cleaned})
    else:
        what = f"brokers {ids} of {name}" if ids else f"all brokers of {name}"
        click.echo(f"removed: {what}")
    return DONE


def _now_ms() -> int:
    """
    Returns the time of day, which RocketMQ's jRaft controllers use.
    """
    return time.time_ns() // 1_000_000
