"""
The description of all sets, as 7118 tells it page by page. Pure.

A page is one JSON object in ASCII: ``sets``, and ``damaged`` for the sets whose records
are unreadable. What has its default is left out, so ten thousand sets of three brokers
take some 10 MiB.

Source: docs/controller.md, *All sets at once*.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pystore.controller.model.log_end import NOWHERE, UNTOLD, LogBegin, LogEnd
from pystore.controller.model.replica import LogStanding
from pystore.controller.model.state import SetKey
from pystore.errors import InvalidError, RemoteViolation
from pystore.net.address import parse_address

__all__ = [
    "BrokerDescription",
    "SetDescription",
    "SetsPage",
    "decode_sets",
    "encode_sets",
]

_T = TypeVar("_T", int, str)
_KNOWN = {one.value: one for one in LogStanding}


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """
    One broker of a set.

    Attributes:
        broker_id: of the broker.
        address: ``HOST:PORT``, the last known one; empty: none is known.
        is_alive: the registered process sends heartbeats.
        since_ms: for how long it is alive, or is not, by the controller's clock. Of one
            that this controller never heard: for how long the controller has led.
        incarnation: of the process that registered; ``None``: a Java broker, or one
            whose record was rebuilt and that has not registered since.
        begin: where its log begins (B11), and whether it is filling now.
        end: of its log; of one that is not alive the largest known one.
        standing: of that process.
        is_learner: it follows, and is never a member.
        is_in_sync: that process is in the SyncStateSet.
        is_candidate: that process is a candidate (B7).
        disk_used_percent: how full the file system of its store is; -1: unknown.
        disk_problem: what kept it from serving as a master when it was heard last, one
            line; empty: nothing.
        is_ill: it is not alive as a replica, but a process at its address says that its
            store cannot be opened, and takes repairs: it is not lost.
    """

    broker_id: int
    address: str = ""
    is_alive: bool = False
    since_ms: int = 0
    incarnation: str | None = None
    begin: LogBegin = UNTOLD
    end: LogEnd = NOWHERE
    standing: LogStanding = LogStanding.SOUND
    is_learner: bool = False
    is_in_sync: bool = False
    is_candidate: bool = False
    disk_used_percent: int = -1
    disk_problem: str = ""
    is_ill: bool = False

    @property
    def host(self) -> str:
        """
        The host of its address; empty: none is known.
        """
        try:
            return parse_address(self.address)[0]
        except InvalidError:
            # A Java broker may register any text.
            return ""


@dataclass(frozen=True, slots=True)
class SetDescription:
    """
    One set that has brokers.

    Attributes:
        cluster: of the set.
        name: of the set.
        version: of its record; it rises with each change, also of the noted log ends.
        master_id: broker id of the recorded master, alive or not; ``None``: none.
        epoch: of the mastership, or of the time without a master.
        set_epoch: of the SyncStateSet.
        copies: how many replicas the set should have, as an operator said; 0: none did.
        wanted_copies: how many it should have.
        brokers: by ascending id.
    """

    cluster: str
    name: str
    version: int = 0
    master_id: int | None = None
    epoch: int = 0
    set_epoch: int = 0
    copies: int = 0
    wanted_copies: int = 0
    brokers: tuple[BrokerDescription, ...] = ()


@dataclass(frozen=True, slots=True)
class SetsPage:
    """
    A part of the description of all sets, told under the authority of one controller.

    Attributes:
        led_ms: for how long that controller has led.
        may_replace: it has led for so long, without a pause, that a broker is not alive
            if it is silent. Otherwise a broker that is told as not alive is unknown.
        sets: in the order of cluster and name.
        damaged: cluster and name of the sets whose records are unreadable.
    """

    led_ms: int
    may_replace: bool
    sets: tuple[SetDescription, ...] = ()
    damaged: tuple[SetKey, ...] = ()


def encode_sets(sets: Iterable[SetDescription], damaged: Iterable[SetKey]) -> bytes:
    """
    Returns the body of a page.
    """
    page = {"sets": list(map(_set, sets)), "damaged": list(map(list, damaged))}
    return json.dumps(page, separators=(",", ":")).encode("ascii")


def decode_sets(
    body: bytes,
) -> tuple[tuple[SetDescription, ...], tuple[SetKey, ...]]:
    """
    Returns the sets of a page, and the damaged ones.

    Raises:
        RemoteViolation: it is no such body.
    """
    try:
        page = _object(json.loads(body))
        sets = tuple(_set_of(_object(one)) for one in page["sets"])
        damaged = tuple((_text(one[0]), _text(one[1])) for one in page["damaged"])
    except (IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        # Whatever is wrong with it: the peer is none of ours, or has a defect.
        raise RemoteViolation(f"no description of sets: {error!r}") from error
    return sets, damaged


def _set(one: SetDescription) -> dict[str, object]:
    told: dict[str, object] = {
        "clusterName": one.cluster,
        "brokerName": one.name,
        "version": one.version,
        "masterEpoch": one.epoch,
        "syncStateSetEpoch": one.set_epoch,
        "wantedCopies": one.wanted_copies,
        "brokers": list(map(_broker, one.brokers)),
    }
    if one.master_id is not None:
        told["masterBrokerId"] = one.master_id
    if one.copies:
        told["copies"] = one.copies
    return told


def _broker(one: BrokerDescription) -> dict[str, object]:
    told: dict[str, object] = {
        "brokerId": one.broker_id,
        "brokerAddress": one.address,
        "alive": one.is_alive,
        "sinceMillis": one.since_ms,
        "epoch": one.end.epoch,
        "endOffset": one.end.end,
        "beginOffset": one.begin.offset,
        "standing": one.standing.value,
    }
    if one.incarnation is not None:
        told["incarnation"] = one.incarnation
    if one.begin.is_filling:
        told["filling"] = True
    if one.is_learner:
        told["learner"] = True
    if one.is_in_sync:
        told["inSync"] = True
    if one.is_candidate:
        told["candidate"] = True
    if one.disk_used_percent >= 0:
        told["diskUsedPercent"] = one.disk_used_percent
    if one.disk_problem:
        told["diskProblem"] = one.disk_problem
    if one.is_ill:
        told["ill"] = True
    return told


def _set_of(row: Mapping[str, Any]) -> SetDescription:
    return SetDescription(
        _text(row["clusterName"]),
        _text(row["brokerName"]),
        _value(row, "version", 0),
        _number(row["masterBrokerId"]) if "masterBrokerId" in row else None,
        _value(row, "masterEpoch", 0),
        _value(row, "syncStateSetEpoch", 0),
        _value(row, "copies", 0),
        _value(row, "wantedCopies", 0),
        tuple(_broker_of(_object(one)) for one in row["brokers"]),
    )


def _broker_of(row: Mapping[str, Any]) -> BrokerDescription:
    begin = LogBegin(_value(row, "beginOffset", -1), _flag(row, "filling"))
    return BrokerDescription(
        _number(row["brokerId"]),
        _value(row, "brokerAddress", ""),
        _flag(row, "alive"),
        _value(row, "sinceMillis", 0),
        _value(row, "incarnation", "") or None,
        begin,
        LogEnd(_value(row, "epoch", -1), _value(row, "endOffset", -1)),
        _KNOWN[row["standing"]],
        _flag(row, "learner"),
        _flag(row, "inSync"),
        _flag(row, "candidate"),
        _value(row, "diskUsedPercent", -1),
        _value(row, "diskProblem", ""),
        _flag(row, "ill"),
    )


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{str(value)[:64]!r} is no object")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:64]!r} is no text")
    return value


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{str(value)[:64]!r} is no number")
    return value


def _flag(row: Mapping[str, Any], name: str) -> bool:
    value = row.get(name, False)
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {str(value)[:64]!r}")
    return value


def _value(row: Mapping[str, Any], name: str, default: _T) -> _T:
    value = row.get(name, default)
    if type(value) is not type(default):
        raise TypeError(f"{name} is {str(value)[:64]!r}")
    return value
