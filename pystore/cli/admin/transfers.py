"""
``pystore admin``: exports, imports and rebuilt records of broker sets.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from pystore.cli.admin.client import (
    ControllerRefusal,
    addresses_option,
    ask_leader,
)
from pystore.cli.admin.stored_brokers import stored_broker
from pystore.cli.lib.exit_codes import BAD, DONE
from pystore.cli.lib.group import json_option
from pystore.cli.lib.output import echo_json
from pystore.controller.decide.rebuild import rebuilt_sets
from pystore.controller.model.codec import decode, encode
from pystore.controller.model.set_export import decode_export, encode_export
from pystore.controller.model.state import SetState
from pystore.controller.protocol.cluster_id import cluster_id_of
from pystore.errors import StorageError
from pystore.fs.atomic import replace_file
from pystore.remoting.codes import RequestCode
from pystore.remoting.fields import decode_fields
from pystore.remoting.operator_headers import (
    ExportSetsRequest,
    ExportSetsResponse,
    ImportSetRequest,
)

__all__ = ["export_sets", "import_sets", "rebuild_set"]

_controllers = addresses_option(
    "-a",
    "--controllerAddress",
    "controllers",
    help_text="Controllers; the first one that knows the leader is enough.",
)


@click.command(
    "exportSets",
    short_help="Write the records of all sets to a file.",
    epilog="\b\nExample: a backup of the record store\n  pystore admin exportSets "
    "-a 127.0.0.1:9878 sets.txt\n",
)
@_controllers
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@json_option
def export_sets(controllers: tuple[str, ...], *, file: Path, as_json: bool) -> int:
    """
    Write the records of all sets and the UUID of the record store to FILE, which is
    replaced as a whole. A damaged record is named and left out; then the exit code is
    1.
    """
    target = file.absolute()
    if not target.parent.is_dir():
        raise click.UsageError(f"{target.parent} is no directory: make it first")
    header = ExportSetsRequest()
    states: list[SetState] = []
    damaged: list[str] = []
    while True:
        answer = ask_leader(controllers, RequestCode.EXPORT_SETS, header)
        told = decode_fields(ExportSetsResponse, answer.ext_fields)
        lines = answer.body.splitlines()
        states += [decode(one, "in the answer") for one in lines]
        damaged += [one for one in told.damaged.split(";") if one]
        cluster_id = cluster_id_of(answer.ext_fields)
        header = ExportSetsRequest(told.next_cluster, told.next_name)
        if not (told.next_cluster or told.next_name):
            break
    try:
        with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
            replace_file(target, encode_export(cluster_id, states), Path(temporary))
    except StorageError:
        # It names the file, such as on a full disk.
        raise
    except OSError as error:
        # Such as for a missing right: the name of the temporary says nothing.
        raise StorageError(
            f"{target}: not written: {error.strerror}: choose another place",
            errno=error.errno,
            path=str(target),
        ) from error
    if as_json:
        found = {"clusterId": cluster_id or None, "sets": len(states)}
        echo_json({**found, "damaged": damaged})
    else:
        click.echo(f"{len(states)} sets of {cluster_id or 'no cluster'} in {file}")
        for one in damaged:
            click.echo(f"damaged, and left out: {one}")
    return BAD if damaged else DONE


@click.command(
    "importSets",
    short_help="Import exported records of sets.",
    epilog="\b\nExample: into an empty record store\n  pystore admin importSets "
    "-a 127.0.0.1:9878 sets.txt\n",
)
@_controllers
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def import_sets(controllers: tuple[str, ...], *, file: Path, as_json: bool) -> int:
    """
    Import the records of FILE. An empty record store gets the UUID of the file; any
    other has to have it. A set that has brokers is left as it is; then the exit code is
    1.
    """
    cluster_id, states = decode_export(file.read_bytes(), str(file))
    return _imported(controllers, cluster_id, states, as_json=as_json)


@click.command(
    "rebuildSet",
    short_help="Rebuild the record of a set from its stores.",
    epilog="\b\nExample: all controllers were lost\n  pystore admin rebuildSet "
    "-a 127.0.0.1:9878 --from /data/1 --from /copies/2 --from /copies/3\n",
)
@_controllers
@click.option(
    "--from",
    "stores",
    multiple=True,
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="STORE",
    help="Store of a broker, or a directory with a copy of its meta/. Repeat.",
)
@click.option(
    "--next-id",
    type=click.IntRange(1, 2**31),
    default=1,
    metavar="N",
    help="The next broker id, if ids above those of the stores were given.",
)
@json_option
def rebuild_set(
    controllers: tuple[str, ...],
    *,
    stores: tuple[Path, ...],
    next_id: int,
    as_json: bool,
) -> int:
    """
    Rebuild the records of sets from the stores of all their brokers, which may run
    meanwhile: ids, epochs, and the UUID of the record store. A master is elected once
    all of them have registered; clean those that are lost. Priorities, learners and the
    preferred broker have to be set again.
    """
    cluster_id, states = rebuilt_sets([stored_broker(one) for one in stores], next_id)
    return _imported(controllers, cluster_id, states, as_json=as_json)


def _imported(
    controllers: tuple[str, ...],
    cluster_id: str,
    states: Sequence[SetState],
    *,
    as_json: bool,
) -> int:
    header = ImportSetRequest(cluster_id)
    refused: dict[tuple[str, str], str] = {}
    for one in states:
        try:
            ask_leader(controllers, RequestCode.IMPORT_SET, header, encode(one))
        except ControllerRefusal as error:
            # The other sets are imported nevertheless.
            refused[one.key] = str(error)
    if as_json:
        rows = [
            {
                "clusterName": one.cluster,
                "brokerName": one.name,
                "masterEpoch": one.epoch,
                "nextBrokerId": one.next_id,
                "brokerIds": [each.broker_id for each in one.replicas],
                "refusal": refused.get(one.key),
            }
            for one in states
        ]
        echo_json({"clusterId": cluster_id or None, "sets": rows})
    elif not states:
        click.echo("there are no sets in it: nothing was imported")
    else:
        for one in states:
            click.echo(_line(one, refused.get(one.key)))
    return BAD if refused else DONE


def _line(state: SetState, refusal: str | None) -> str:
    where = f"set {state.name} of cluster {state.cluster}"
    if refusal is not None:
        return f"{where}: not imported: {refusal}"
    ids = {one.broker_id for one in state.replicas}
    ids |= {one.broker_id for one in state.tombstones}
    missing = sorted(set(range(1, state.next_id)) - ids)
    text = f"{where}: brokers {', '.join(map(str, sorted(ids)))}, epoch {state.epoch}"
    if not missing:
        return text
    return f"{text}; unknown, and taken as lost: {', '.join(map(str, missing))}"
