"""
``pystore admin switchMaster``: another master without a lost record.
"""

from __future__ import annotations

import click

from pystore.cli.admin.client import addresses_option, ask, ask_leader, set_option
from pystore.cli.lib.exit_codes import DONE
from pystore.cli.lib.group import json_option
from pystore.cli.lib.output import echo_json
from pystore.errors import UnavailableError
from pystore.remoting.codes import RequestCode
from pystore.remoting.controller_headers import (
    GetReplicaInfoRequest,
    GetReplicaInfoResponse,
)
from pystore.remoting.errors import NoAnswer
from pystore.remoting.fields import decode_fields
from pystore.remoting.operator_headers import HandOverRequest, HandOverResponse

__all__ = ["switch_master"]


@click.command(
    "switchMaster",
    short_help="Hand the mastership over, without a lost record.",
    epilog="\b\nExample: broker 2 becomes master\n  pystore admin switchMaster "
    "-a 127.0.0.1:9878 -bn broker-a -b 2\n",
)
@addresses_option(
    "-a",
    "--controllerAddress",
    "controllers",
    help_text="Controllers; the first one that knows the leader is enough.",
)
@set_option
@click.option(
    "-b", "--brokerId", "broker_id", type=click.IntRange(1), required=True, metavar="N"
)
@json_option
def switch_master(
    controllers: tuple[str, ...], *, name: str, broker_id: int, as_json: bool
) -> int:
    """
    Ask the master to hand over to a broker that is in sync: it catches up, appends
    pause, it receives the rest, and the controller elects it. electMaster elects at
    once, and may cut records that were acknowledged as leader.
    """
    answer = ask_leader(
        controllers,
        RequestCode.CONTROLLER_GET_REPLICA_INFO,
        GetReplicaInfoRequest(name),
    )
    master = decode_fields(GetReplicaInfoResponse, answer.ext_fields)
    if not master.master_address:
        raise UnavailableError(f"{name} has no master: use electMaster")
    if master.master_broker_id != broker_id:
        header = HandOverRequest(broker_id)
        try:
            answer = ask(master.master_address, RequestCode.HAND_OVER, header)
        except NoAnswer as error:
            # The master was asked, and may have done it.
            raise UnavailableError(
                f"{error}: whether broker {broker_id} is the master now, `pystore "
                f"admin getSyncStateSet -b {name}` says"
            ) from error
        epoch = decode_fields(HandOverResponse, answer.ext_fields).master_epoch
    else:
        epoch = master.master_epoch or 0
    if as_json:
        found = {"brokerName": name, "masterBrokerId": broker_id, "masterEpoch": epoch}
        echo_json(found)
    else:
        click.echo(f"broker {broker_id} is master of {name} in epoch {epoch}")
    return DONE
