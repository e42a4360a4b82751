"""
``pystore recovery explain``: why marks, fills, drains and dead segments do not move.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

from pystore.access.credentials import CredentialsFile
from pystore.access.signer import RequestSigner
from pystore.autorecovery.explanations import (
    ClusterAnswers,
    ExplainTarget,
    Explanation,
    explain_cluster,
    read_explained,
    replicas_to_ask,
)
from pystore.autorecovery.host_peers import HostPeers, RecoveryHost
from pystore.autorecovery.peer_client import RemotePeers
from pystore.autorecovery.replica_key import ReplicaKey
from pystore.autorecovery.replica_peers import ReplicaAddress
from pystore.autorecovery.segment_key import read_name
from pystore.cli.lib.durations import moment_text
from pystore.cli.lib.exit_codes import BAD, DONE
from pystore.cli.lib.group import json_option
from pystore.cli.lib.output import echo_json, lines_text
from pystore.cli.lib.peer_tls import peer_tls
from pystore.cli.recovery.host_options import hosts_options, open_hosts
from pystore.cli.recovery.records import open_records, parse_segment, records_options
from pystore.clocks import wall_ms
from pystore.errors import PystoreError, UnavailableError
from pystore.segments.order import ReplicaStat

__all__ = ["explain_command"]

_AT_ONCE = 8
_PORT = re.compile(r"[^/]+(:[0-9]{1,5})?")


def _parse_target(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> ExplainTarget:
    if value is None:
        return ExplainTarget()
    if value.count("/") == 1:
        cluster, _, name = value.partition("/")
        if cluster and name:
            return ExplainTarget(names=(read_name(cluster), read_name(name)))
    elif value.count("/") > 1:
        return ExplainTarget(segment=parse_segment(context, parameter, value))
    elif _PORT.fullmatch(value):
        return ExplainTarget(host=value)
    raise click.BadParameter(
        f"{value!r} is none of CLUSTER/SET/OFFSET, CLUSTER/SET, HOST:PORT, HOST"
    )


@click.command(
    "explain",
    short_help="Say why segments and replicas do not move.",
    epilog="\b\nExample: what keeps one segment\n  pystore recovery explain "
    "-a 10.0.0.1:9878 --records /data/records DefaultCluster/broker-a/1073741824\n",
)
@click.argument(
    "target", metavar="[SEGMENT|HOST|SET]", required=False, callback=_parse_target
)
@hosts_options
@records_options
@json_option
def explain_command(
    *,
    target: ExplainTarget,
    controllers: tuple[str, ...],
    records: str | None,
    config: Path | None,
    as_json: bool,
    **access: Any,  # noqa: ANN401
) -> int:
    """
    Say of each marked and each dead segment, each fill, loss, replacement and drain
    why it does not move: what it waits for, each copy or host that could help, yes or
    no and why, what remains of a delay, and when the next try is. Each replica is
    asked. HOST is the address of a host or of a broker, with or without its port; SET
    is CLUSTER/SET. The exit code is 1 if a record cannot be read.
    """
    with open_records(records, config) as store:
        known = read_explained(store, wall_ms())
    with open_hosts(controllers, **access) as (asked, hosts):
        view = asked.all_sets()
        told = _hosts(hosts)
        stats = _stats(replicas_to_ask(known, view, target), **access)
    found = explain_cluster(known, ClusterAnswers(view, told or {}, stats), target)
    notes = [*known.damaged]
    if not view.may_replace:
        led_s = view.led_ms // 1000
        notes.append(
            f"the controller leads for {led_s} s: who is dead is not known yet"
        )
    if told is None:
        notes.append("the controllers do not tell all hosts yet: none is named below")
    if as_json:
        echo_json({"explained": list(map(_row, found)), "notes": notes})
    else:
        lines = [*notes, *(one for it in found for one in _lines(it, known.now_ms))]
        click.echo(lines_text(lines or ["nothing waits"]))
    return BAD if known.damaged else DONE


def _hosts(hosts: HostPeers) -> dict[str, RecoveryHost] | None:
    try:
        return dict(hosts.all_hosts())
    except UnavailableError:
        # A controller that leads for a short time: the rest can be explained.
        return None


def _stats(
    replicas: list[tuple[ReplicaKey, str]],
    *,
    credentials: Path | None,
    authorities: str,
    certificate: str,
    key: str,
) -> dict[ReplicaKey, ReplicaStat]:
    """
    Returns the answers of the replicas that gave one.
    """
    signs = None
    if credentials is not None:
        signs = RequestSigner(CredentialsFile(credentials).now).sign
    tls = peer_tls(authorities, certificate, key)
    found: dict[ReplicaKey, ReplicaStat] = {}
    with (
        RemotePeers(signs=signs, tls=tls) as peers,
        ThreadPoolExecutor(_AT_ONCE, "explain") as executor,
    ):

        def ask(one: tuple[ReplicaKey, str]) -> None:
            replica, address = one
            names = replica.cluster, replica.set_name, replica.broker_id
            try:
                found[replica] = peers.stat(ReplicaAddress(*names, address))
            except PystoreError:
                # Then it is unknown, which its line says.
                return

        list(executor.map(ask, replicas))
    return found


def _row(one: Explanation) -> dict[str, Any]:
    return {
        "kind": one.kind.value,
        "name": one.name,
        "state": list(one.state),
        "candidates": [
            {
                "candidate": name,
                "answer": text.partition(":")[0].partition(",")[0],
                "text": text,
            }
            for name, text in one.candidates.items()
        ],
        "nextMillis": one.next_ms or None,
    }


def _lines(one: Explanation, now_ms: int) -> Iterator[str]:
    first, *others = one.state
    yield f"{one.kind.value} {one.name}: {first}"
    if one.next_ms > now_ms:
        yield f"  next: {moment_text(one.next_ms, now_ms)}"
    yield from (f"  {line}" for line in others)
    yield from (f"  {name}: {text}" for name, text in one.candidates.items())
