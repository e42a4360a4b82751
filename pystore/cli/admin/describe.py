"""
``pystore admin``: the details of a broker set from a controller of pystore.
"""

from __future__ import annotations

from typing import Any

import click

from pystore.cli.admin.client import (
    addresses_option,
    ask_leader,
    cluster_option,
    set_option,
)
from pystore.cli.lib.exit_codes import BAD, DONE
from pystore.cli.lib.group import json_option
from pystore.cli.lib.output import echo_json, pairs_text, table_text
from pystore.remoting.codes import RequestCode
from pystore.remoting.json_body import parse_body, read_object
from pystore.remoting.operator_headers import DescribeBrokerSetRequest
from pystore.text import count_text, size_text

__all__ = ["describe_broker_set", "show_unclean"]

_controllers = addresses_option(
    "-a",
    "--controllerAddress",
    "controllers",
    help_text="Controllers; the first one that knows the leader is enough.",
)


def _found(controllers: tuple[str, ...], name: str, cluster: str) -> dict[str, Any]:
    header = DescribeBrokerSetRequest(name, cluster)
    answer = ask_leader(controllers, RequestCode.DESCRIBE_BROKER_SET, header)
    return read_object(parse_body(answer.body), "7101's answer")


@click.command(
    "describeBrokerSet",
    short_help="Show why a replica is not in sync.",
    epilog="\b\nExample:\n  pystore admin describeBrokerSet -a 127.0.0.1:9878 "
    "-bn broker-a\n",
)
@_controllers
@set_option
@cluster_option
@json_option
def describe_broker_set(
    controllers: tuple[str, ...], *, name: str, cluster: str, as_json: bool
) -> int:
    """
    Print the master, the lease, pending commands and the last refusal of a set, and why
    a replica is not in sync. The exit code is 1 if the master is not alive, or if a
    replica other than a learner is not in sync.
    """
    found = _found(controllers, name, cluster)
    if as_json:
        echo_json(found)
    else:
        click.echo(_text(found))
    return DONE if _is_well(found) else BAD


def _is_well(found: dict[str, Any]) -> bool:
    voters = (one for one in found["brokers"] if not one["learner"])
    return found["masterAlive"] and all(one["inSync"] for one in voters)


def _text(found: dict[str, Any]) -> str:
    pairs = [
        ("broker set", f"{found['brokerName']} of {found['clusterName']}"),
        ("master", _master_text(found)),
        ("lease", _lease_text(found)),
        ("SyncStateSet", f"brokers {_ids_text(found['syncStateSet'])}, epoch "
         f"{found['syncStateSetEpoch']}"),
        ("candidates", _ids_text(found["candidates"])),
        ("pending", ", ".join(found["pending"]) or "-"),
        ("copies", _copies_text(found)),
        ("elections", _elections_text(found)),
        ("last refusal", _refusal_text(found.get("lastRefusal"))),
    ]  # fmt: skip
    if found.get("recordBytesMax"):
        used, most = found["recordBytes"], found["recordBytesMax"]
        pairs.append(("record store", f"{size_text(used)} of {size_text(most)}"))
    pairs += [
        ("loss", f"epoch {one['epoch']}, {one['cause']}: {_range_text(one)}")
        for one in found["losses"]
    ]  # fmt: skip
    header = ("id", "address", "alive", "in sync", "epoch", "end")
    table = table_text(header, map(_row, found["brokers"]))
    reasons = [
        f"broker {one['brokerId']}: {reason}"
        for one in found["brokers"]
        for reason in (one["reason"], _filling_text(one))
        if reason
    ]
    return "\n\n".join([pairs_text(pairs), table, *filter(None, ["\n".join(reasons)])])


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(one["brokerId"]),
        one["brokerAddress"],
        "yes" if one["alive"] else "no",
        "yes" if one["inSync"] else "no",
        str(one["epoch"]) if one["epoch"] >= 0 else "-",
        count_text(one["endOffset"]) if one["endOffset"] >= 0 else "-",
    )


def _filling_text(one: dict[str, Any]) -> str:
    """
    Returns what a replica lacks (B11); empty: nothing, or a controller of an earlier
    version does not say so.
    """
    if not one.get("filling"):
        return ""
    return (
        f"it is filling: its log begins at {count_text(one['beginOffset'])}, above "
        "that of the set, so it is elected only unclean"
    )


def _master_text(found: dict[str, Any]) -> str:
    if found.get("masterBrokerId") is None:
        return f"none, epoch {found['masterEpoch']}"
    state = "alive" if found["masterAlive"] else "not alive"
    return f"broker {found['masterBrokerId']}, {state}, epoch {found['masterEpoch']}"


def _lease_text(found: dict[str, Any]) -> str:
    own = found["leaseMillis"]
    parts = [f"may run for {own / 1000:.1f} s" if own else "none"]
    parts += [
        f"former master {one['brokerId']}: {one['leaseMillis'] / 1000:.1f} s"
        for one in found["formerLeases"]
    ]
    return "; ".join(parts)


def _elections_text(found: dict[str, Any]) -> str:
    how = "automatic" if found["allowElectMaster"] else "on request of an operator only"
    preferred = found["preferredBrokerId"]
    return f"{how}, broker {preferred} preferred" if preferred else how


def _copies_text(found: dict[str, Any]) -> str:
    wanted = found.get("wantedCopies")
    if wanted is None:
        # Of a controller of an earlier version.
        return "-"
    return str(wanted) if found["copies"] else f"{wanted}, as registered"


def _refusal_text(refusal: dict[str, Any] | None) -> str:
    if refusal is None:
        return "-"
    broker = f" (broker {refusal['brokerId']})" if refusal["brokerId"] else ""
    return f"{refusal['code']}: {refusal['reason']}{broker}"


def _ids_text(ids: list[int]) -> str:
    return ", ".join(map(str, ids)) or "-"


def show_unclean(body: bytes, *, as_json: bool) -> int:
    """
    Prints what an unclean election loses, the answer to 7107, and returns the exit
    code: 1 if it was not confirmed, so nothing was changed.
    """
    found = read_object(parse_body(body), "7107's answer")
    is_done = found["elected"]
    if as_json:
        echo_json(found)
        return DONE if is_done else BAD
    set_text = f"{found['brokerName']} of {found['clusterName']}"
    lost = [_range_text(one) for one in found["losses"]]
    pairs = [
        ("broker set", set_text + ("" if is_done else " (nothing was changed)")),
        ("master" if is_done else "would be master", f"broker {found['brokerId']}"),
        ("lost" if is_done else "would be lost", "\n".join(lost) or "nothing known"),
    ]
    if not is_done:
        pairs.append(("to do", "start a broker with a longer log; or accept the loss "
                      "with --yes"))  # fmt: skip
    rows = [
        (
            str(one["brokerId"]),
            one["role"],
            "yes" if one["alive"] else "no",
            str(one["epoch"]) if one["epoch"] >= 0 else "-",
            count_text(one["endOffset"]) if one["endOffset"] >= 0 else "-",
        )
        for one in found["ends"]
    ]
    columns = ("id", "role", "alive", "epoch", "largest end")
    click.echo(f"{pairs_text(pairs)}\n\n{table_text(columns, rows)}")
    return DONE if is_done else BAD


def _range_text(one: dict[str, Any]) -> str:
    return f"{count_text(one['startOffset'])} to {count_text(one['endOffset'])}"
