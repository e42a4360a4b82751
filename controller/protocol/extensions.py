"""
What pystore adds to the headers of RocketMQ's controller requests and answers. Pure.

Java passes over fields that it does not know, so both kinds of brokers and of
controllers understand what is RocketMQ's of each other. All names begin with
``pystore``, and a peer that sends none of them is a Java one. One that sends them
wrong is refused, and is never taken for a Java one: an incarnation is what keeps a
restarted process from passing for the one before (B1).

| code | asked with | answered with |
|---|---|---|
| 904 | `HeartbeatExtension` | `LeaseGrant`; a heartbeat that wants one is not one-way |
| 1001 | `AlterSet` | the set |
| 1002, 1004 | | leadership and set |
| 1003 | `Recovery` | leadership, set, standing |
| 1008 | leadership and set | |

Those of 904 and 1003 are here, those about masters and sets in
`pystore.controller.protocol.set_extensions`.

Source: design 7; safety B1 to B4, B7, B9, C1, C3; docs/identity.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from pystore.controller.model.commands import Recovery
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.replica import LogStanding
from pystore.remoting.codes import ResponseCode
from pystore.remoting.fields import Int64, MissingField, decode_fields, encode_fields
from pystore.replicaset import Incarnation, Member

__all__ = [
    "Fields",
    "HeartbeatExtension",
    "LeaseGrant",
    "ids_text",
    "lease_fields",
    "lease_of",
    "malformed",
    "members_text",
    "parse_ids",
    "parse_incarnation",
    "parse_members",
    "recovery_fields",
    "recovery_of",
    "standing_fields",
    "standing_of",
    "vitals_fields",
    "vitals_of",
]

Fields = Mapping[str, str]
"""The ``extFields`` of a command."""

_STANDING = "pystoreStanding"


# -- 904: heartbeats ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeartbeatExtension:
    """
    What a heartbeat tells beside RocketMQ's fields.

    Attributes:
        incarnation: of the process that sends it.
        boot_id: of the machine; empty: not known.
        flushed_end: of what is on its disk, in bytes; -1: not known.
        disk_problem: why its disk is ill, as one line; empty: it is not (B9).
        resigned_epoch: of the mastership that it gave up and will not take up again,
            so that nobody need wait for its lease (C3); -1: none.
    """

    incarnation: Incarnation
    boot_id: str = ""
    flushed_end: int = -1
    disk_problem: str = ""
    resigned_epoch: int = -1


@dataclass(frozen=True, slots=True)
class _VitalsHeader:
    pystore_incarnation: str | None = None
    pystore_boot_id: str = ""
    pystore_flushed_end: Int64 = -1
    pystore_disk_problem: str = ""
    pystore_resigned_epoch: Int64 = -1


def vitals_fields(vitals: HeartbeatExtension) -> dict[str, str]:
    """
    Returns what a heartbeat adds.
    """
    return encode_fields(
        _VitalsHeader(
            vitals.incarnation.text,
            vitals.boot_id,
            vitals.flushed_end,
            vitals.disk_problem,
            vitals.resigned_epoch,
        )
    )


def vitals_of(fields: Fields) -> HeartbeatExtension | None:
    """
    Returns what a heartbeat adds; ``None``: it is a Java broker's.

    Raises:
        MissingField: the incarnation is none.
    """
    if "pystoreIncarnation" not in fields:
        return None
    header = decode_fields(_VitalsHeader, fields)
    assert header.pystore_incarnation is not None
    return HeartbeatExtension(
        parse_incarnation(header.pystore_incarnation),
        header.pystore_boot_id,
        header.pystore_flushed_end,
        header.pystore_disk_problem,
        header.pystore_resigned_epoch,
    )


@dataclass(frozen=True, slots=True)
class LeaseGrant:
    """
    How long a master may answer for itself alone (C1).

    Attributes:
        length_ms: from when the heartbeat was sent; 0: no lease now.
        epoch: of the mastership that has it; 0 with no lease.
    """

    length_ms: int = 0
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class _LeaseHeader:
    pystore_lease_ms: Int64 | None = None
    pystore_lease_epoch: Int64 = 0


def lease_fields(grant: LeaseGrant) -> dict[str, str]:
    """
    Returns what the answer to a heartbeat adds; to a slave's too, without a lease.
    """
    return encode_fields(_LeaseHeader(grant.length_ms, grant.epoch))


def lease_of(fields: Fields) -> LeaseGrant | None:
    """
    Returns the lease; ``None``: this controller gives none, ever.
    """
    header = decode_fields(_LeaseHeader, fields)
    if header.pystore_lease_ms is None:
        return None
    return LeaseGrant(max(0, header.pystore_lease_ms), header.pystore_lease_epoch)


# -- 1003: what a process found in its store ---------------------------------


@dataclass(frozen=True, slots=True)
class _RecoveryHeader:
    pystore_incarnation: str | None = None
    pystore_boot_id: str = ""
    pystore_recovered_epoch: Int64 = -1
    pystore_recovered_end: Int64 = -1
    pystore_published_end: Int64 = -1
    pystore_is_clean: bool = False
    pystore_keeps_pages: bool = False
    pystore_acks_flushed: bool = False
    pystore_is_lossy: bool = False
    pystore_is_copy: bool = False


def recovery_fields(recovery: Recovery) -> dict[str, str]:
    """
    Returns what a registration adds.
    """
    return encode_fields(
        _RecoveryHeader(
            recovery.incarnation.text,
            recovery.boot_id,
            recovery.position.epoch,
            recovery.position.end,
            recovery.published_end,
            recovery.is_clean,
            recovery.keeps_pages,
            recovery.acks_flushed,
            recovery.is_lossy,
            recovery.is_copy,
        )
    )


def recovery_of(fields: Fields) -> Recovery | None:
    """
    Returns what a registration adds; ``None``: it is a Java broker's.

    Raises:
        MissingField: the incarnation is none.
    """
    header = decode_fields(_RecoveryHeader, fields)
    if header.pystore_incarnation is None:
        return None
    return Recovery(
        parse_incarnation(header.pystore_incarnation),
        header.pystore_boot_id,
        LogEnd(header.pystore_recovered_epoch, header.pystore_recovered_end),
        header.pystore_published_end,
        header.pystore_is_clean,
        header.pystore_keeps_pages,
        header.pystore_acks_flushed,
        header.pystore_is_lossy,
        header.pystore_is_copy,
    )


def standing_fields(standing: LogStanding) -> dict[str, str]:
    """
    Returns what the answer says of the log of the process that registered.
    """
    return {_STANDING: standing.value}


def standing_of(fields: Fields) -> LogStanding | None:
    """
    Returns the standing; ``None``: the controller judges none.

    Raises:
        MissingField: one that nobody knows.
    """
    text = fields.get(_STANDING)
    known = {one.value: one for one in LogStanding}
    if text is not None and text not in known:
        raise malformed(f"no standing is called {text[:32]!r}")
    return None if text is None else known[text]


_INCARNATION = re.compile(r"([0-9]{1,18})-([0-9a-f]{32})")


_KNOWN_MAX = 1 << 14  # of incarnations, each some hundred bytes


_BROKER_ID = re.compile(r"[0-9]{1,18}")


def malformed(what: str) -> MissingField:
    """
    Returns the error that a request is refused with: 2005.
    """
    return MissingField(what, ResponseCode.CONTROLLER_INVALID_REQUEST)


def members_text(members: frozenset[Member]) -> str | None:
    """
    Returns members by ascending id; ``None``: nobody.
    """
    ordered = sorted(members, key=lambda one: one.broker_id)
    return ";".join(map(_member_text, ordered)) or None


def parse_members(text: str | None) -> frozenset[Member]:
    """
    Returns the members that a header names.

    Raises:
        MissingField: one of them is none.
    """
    return frozenset(map(_parse_member, text.split(";"))) if text else frozenset()


def ids_text(broker_ids: frozenset[int]) -> str | None:
    """
    Returns ids, ascending; ``None``: there are none.
    """
    return ";".join(map(str, sorted(broker_ids))) or None


def parse_ids(text: str | None) -> frozenset[int]:
    """
    Returns the ids that a header names.

    Raises:
        MissingField: one is no number.
    """
    return frozenset(map(_parse_id, text.split(";"))) if text else frozenset()


@lru_cache(_KNOWN_MAX)
def parse_incarnation(text: str) -> Incarnation:
    """
    Returns the incarnation of which this is
    `pystore.metastore.values.Incarnation.text`; each broker says its own every second.

    Raises:
        MissingField: of none.
    """
    parts = _INCARNATION.fullmatch(text)
    if parts is None:
        raise malformed(f"{text[:64]!r} is no incarnation")
    return Incarnation(int(parts[1]), bytes.fromhex(parts[2]))


def _member_text(member: Member) -> str:
    if member.incarnation is None:
        return str(member.broker_id)
    return f"{member.broker_id}@{member.incarnation.text}"


def _parse_member(text: str) -> Member:
    number, at, incarnation = text.partition("@")
    return Member(_parse_id(number), parse_incarnation(incarnation) if at else None)


def _parse_id(text: str) -> int:
    if not _BROKER_ID.fullmatch(text):
        raise malformed(f"{text[:32]!r} is no broker id")
    return int(text)
