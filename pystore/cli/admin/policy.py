"""
``pystore admin``: changes to a broker set, for controllers of pystore.
"""

from __future__ import annotations

import click

from pystore.cli.admin.client import (
    addresses_option,
    ask_leader,
    cluster_option,
    set_option,
)
from pystore.cli.lib.exit_codes import DONE
from pystore.cli.lib.group import json_option
from pystore.cli.lib.output import echo_json
from pystore.controller.model.limits import BROKERS_MAX
from pystore.remoting.codes import RequestCode
from pystore.remoting.operator_headers import (
    ChangeBrokerRequest,
    ChangeElectionsRequest,
    DeleteBrokerSetRequest,
    ReadmitBrokerRequest,
    SetCopiesRequest,
)

__all__ = [
    "change_broker",
    "change_elections",
    "delete_broker_set",
    "readmit_broker",
    "set_copies",
]

_controllers = addresses_option(
    "-a",
    "--controllerAddress",
    "controllers",
    help_text="Controllers; the first one that knows the leader is enough.",
)
_broker = click.option(
    "-b", "--brokerId", "broker_id", type=click.IntRange(1), required=True, metavar="N"
)


@click.command(
    "changeBroker",
    short_help="Make a broker learner or voter; set its priority.",
    epilog="\b\nExample: broker 3 only follows\n  pystore admin changeBroker "
    "-a 127.0.0.1:9878 -bn broker-a -b 3 --learner\n",
)
@_controllers
@set_option
@_broker
@cluster_option
@click.option(
    "--learner",
    is_flag=True,
    help="A learner follows, but is never in sync nor elected.",
)
@click.option("--voter", is_flag=True, help="It is no learner.")
@click.option(
    "--priority",
    type=click.IntRange(0, 2**31 - 1),
    metavar="N",
    help="The lower number is preferred among equals.",
)
@json_option
def change_broker(
    controllers: tuple[str, ...],
    *,
    name: str,
    broker_id: int,
    cluster: str,
    learner: bool,
    voter: bool,
    priority: int | None,
    as_json: bool,
) -> int:
    """
    Make a broker a learner or a voter, or set its election priority.
    """
    is_learner = _either("--learner", learner, "--voter", voter)
    if is_learner is None and priority is None:
        raise click.UsageError("give --learner, --voter or --priority N")
    header = ChangeBrokerRequest(name, broker_id, cluster, is_learner, priority)
    ask_leader(controllers, RequestCode.CHANGE_BROKER, header)
    changed = {"learner": is_learner, "priority": priority}
    return _done(f"broker {broker_id} of {name}", name, changed, as_json=as_json)


@click.command(
    "changeElections",
    short_help="Change the elections of a set.",
    epilog="\b\nExample: elect only on request of an operator\n  pystore admin "
    "changeElections -a 127.0.0.1:9878 -bn broker-a --manual\n",
)
@_controllers
@set_option
@cluster_option
@click.option(
    "--preferred",
    type=click.IntRange(0),
    metavar="N",
    help="Broker to elect among equals; 0: none.",
)
@click.option(
    "--automatic",
    is_flag=True,
    help="The controller elects by itself (allowElectMaster).",
)
@click.option("--manual", is_flag=True, help="It elects for an operator only.")
@json_option
def change_elections(
    controllers: tuple[str, ...],
    *,
    name: str,
    cluster: str,
    preferred: int | None,
    automatic: bool,
    manual: bool,
    as_json: bool,
) -> int:
    """
    Change how a set elects its master.
    """
    is_automatic = _either("--automatic", automatic, "--manual", manual)
    if preferred is None and is_automatic is None:
        raise click.UsageError("give --preferred N, --automatic or --manual")
    header = ChangeElectionsRequest(name, cluster, preferred, is_automatic)
    ask_leader(controllers, RequestCode.CHANGE_ELECTIONS, header)
    changed = {"preferredBrokerId": preferred, "allowElectMaster": is_automatic}
    return _done(f"elections of {name}", name, changed, as_json=as_json)


@click.command(
    "setCopies",
    short_help="Say how many replicas a set should have.",
    epilog="\b\nExample: three replicas\n"
    "  pystore admin setCopies -a 127.0.0.1:9878 -bn broker-a 3\n",
)
@_controllers
@set_option
@cluster_option
@click.argument("copies", type=click.IntRange(0, BROKERS_MAX))
@json_option
def set_copies(
    controllers: tuple[str, ...],
    *,
    name: str,
    cluster: str,
    copies: int,
    as_json: bool,
) -> int:
    """
    Say how many replicas a set should have; 0, the default: as many brokers as have an
    id in it and are no learners. Nothing is moved by this alone.
    """
    header = SetCopiesRequest(name, copies, cluster)
    ask_leader(controllers, RequestCode.SET_COPIES, header)
    return _done(f"broker set {name}", name, {"copies": copies}, as_json=as_json)


def _either(yes: str, is_yes: bool, no: str, is_no: bool) -> bool | None:
    """
    Returns which of two options is given; ``None``: neither is.
    """
    if is_yes and is_no:
        raise click.UsageError(f"{yes} and {no} contradict each other")
    return is_yes if is_yes or is_no else None


@click.command(
    "readmitBroker",
    short_help="Vouch for a copied or empty store.",
    epilog="\b\nExample: broker 2 lost its disk, and a master may fill it again\n"
    "  pystore admin readmitBroker -a 127.0.0.1:9878 -bn broker-a -b 2\n",
)
@_controllers
@set_option
@_broker
@cluster_option
@json_option
def readmit_broker(
    controllers: tuple[str, ...],
    *,
    name: str,
    broker_id: int,
    cluster: str,
    as_json: bool,
) -> int:
    """
    Let the master fill and admit a barred broker: its store is a copy, was restored, is
    empty, or the broker was cleaned.
    """
    header = ReadmitBrokerRequest(name, broker_id, cluster)
    ask_leader(controllers, RequestCode.READMIT_BROKER, header)
    changed: dict[str, int | bool | None] = {"readmitted": True}
    return _done(f"broker {broker_id} of {name}", name, changed, as_json=as_json)


@click.command(
    "deleteBrokerSet",
    short_help="Remove the record of a set.",
    epilog="\b\nExample: a broker had a wrong cluster name once\n  pystore admin "
    "deleteBrokerSet -a 127.0.0.1:9878 -c rgi -bn broker-a\n",
)
@_controllers
@set_option
@click.option(
    "-c",
    "--clusterName",
    "cluster",
    required=True,
    metavar="NAME",
    help="Cluster of the set.",
)
@json_option
def delete_broker_set(
    controllers: tuple[str, ...], *, name: str, cluster: str, as_json: bool
) -> int:
    """
    Remove a set whose brokers never come back; none of them may be alive. The next
    broker id and the epochs stay known: they continue if the name is used again.
    """
    header = DeleteBrokerSetRequest(name, cluster)
    ask_leader(controllers, RequestCode.DELETE_BROKER_SET, header)
    changed: dict[str, int | bool | None] = {"deleted": True}
    return _done(f"broker set {name} of {cluster}", name, changed, as_json=as_json)


def _done(
    what: str, name: str, changed: dict[str, int | bool | None], *, as_json: bool
) -> int:
    told = {key: value for key, value in changed.items() if value is not None}
    if as_json:
        echo_json({"brokerName": name, **told})
    else:
        words = ", ".join(f"{key} {str(value).lower()}" for key, value in told.items())
        click.echo(f"{what}: {words}")
    return DONE
