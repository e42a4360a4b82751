"""
pystore's extensions of the headers of controller requests and answers. Pure.

Java ignores unknown fields, so both kinds of brokers and controllers understand
RocketMQ's fields of each other. All names of extensions begin with ``pystore``. A peer
that sends none of them is a Java peer. Malformed extensions are refused, and never
ignored: the incarnation distinguishes a restarted process from the previous one (B1).

904 has `HeartbeatExtension` and is answered with a `LeaseGrant`, unless it is one-way;
1001 `AlterSet` and the set; 1002 the master that hands over, and leadership and set,
which 1004 and 1008 tell, too; 1003 `Recovery`, and leadership, set and standing; 1007
is answered with the process. Beside a SyncStateSet brokers are told the learners.

The extensions of 904 and 1003 are here, those of masters and sets in
`pystore.controller.protocol.set_extensions`.

Source: B1 to B4, B7, B9, C1, C3; docs/identity.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from pystore.access.roles import HANDED_OVER
from pystore.controller.model.commands import Recovery
from pystore.controller.model.log_end import UNTOLD, LogBegin, LogEnd
from pystore.controller.model.replica import LogStanding
from pystore.errors import InvalidError
from pystore.net.address import parse_address
from pystore.remoting.codes import ResponseCode
from pystore.remoting.fields import (
    Int32,
    Int64,
    MissingField,
    decode_fields,
    encode_fields,
    field_values,
)
from pystore.replicaset import Incarnation, Member

__all__ = [
    "Fields",
    "HeartbeatExtension",
    "LeaseGrant",
    "ha_address_fields",
    "ha_address_of",
    "handed_over_fields",
    "handed_over_of",
    "heartbeat_extension_fields",
    "heartbeat_extension_of",
    "ids_text",
    "lease_fields",
    "lease_of",
    "malformed",
    "members_text",
    "parse_ids",
    "parse_incarnation",
    "parse_members",
    "process_fields",
    "process_of",
    "recovery_fields",
    "recovery_of",
    "standing_fields",
    "standing_of",
]

Fields = Mapping[str, str]
"""The ``extFields`` of a command."""

_STANDING = "pystoreStanding"
_INCARNATION_FIELD = "pystoreIncarnation"


# -- 904: heartbeats ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeartbeatExtension:
    """
    The extension of a heartbeat.

    Attributes:
        incarnation: of the process that sends it.
        boot_id: of the machine; empty: unknown.
        flushed_end: the end of the log on disk, in bytes; -1: unknown.
        disk_problem: what keeps it from serving as a master, as one line, most often
            the failure of its disk; empty: nothing (B9, B13).
        resigned_epoch: of the mastership that it resigned for good, which ends the wait
            for its lease (C3); -1: none.
        begin: where its log begins (B11).
        known_epoch: of the newest decision that it knows, or the highest that its store
            promised (B6); -1: unknown.
        known_set_epoch: of the SyncStateSet of that decision; -1: unknown.
        disk_used_percent: how full the file system of its store is; -1: unknown.
        is_ill: its store cannot be opened, and takes repairs: this process is none that
            registers.
        promised_epoch: below which it acknowledges nothing more, since before the end
            of its log was read (B6); -1: unknown.
    """

    incarnation: Incarnation
    boot_id: str = ""
    flushed_end: int = -1
    disk_problem: str = ""
    resigned_epoch: int = -1
    begin: LogBegin = UNTOLD
    known_epoch: int = -1
    known_set_epoch: int = -1
    disk_used_percent: int = -1
    is_ill: bool = False
    promised_epoch: int = -1


@dataclass(frozen=True, slots=True)
class _HeartbeatExtensionHeader:
    pystore_incarnation: str | None = None
    pystore_boot_id: str = ""
    pystore_flushed_end: Int64 = -1
    pystore_disk_problem: str = ""
    pystore_resigned_epoch: Int64 = -1
    pystore_begin_offset: Int64 = -1
    pystore_is_filling: bool = False
    pystore_known_epoch: Int64 = -1
    pystore_known_set_epoch: Int64 = -1
    pystore_disk_used_percent: Int32 = -1
    pystore_is_ill: bool = False
    pystore_promised_epoch: Int64 = -1


def heartbeat_extension_fields(extension: HeartbeatExtension) -> dict[str, str]:
    """
    Returns the extension of a heartbeat.
    """
    return encode_fields(
        _HeartbeatExtensionHeader(
            extension.incarnation.text,
            extension.boot_id,
            extension.flushed_end,
            extension.disk_problem,
            extension.resigned_epoch,
            extension.begin.offset,
            extension.begin.is_filling,
            extension.known_epoch,
            extension.known_set_epoch,
            extension.disk_used_percent,
            extension.is_ill,
            extension.promised_epoch,
        )
    )


def heartbeat_extension_of(fields: Fields) -> HeartbeatExtension | None:
    """
    Returns the extension of a heartbeat; ``None``: a Java broker sent it.

    Raises:
        MissingField: the incarnation is malformed.
    """
    if _INCARNATION_FIELD not in fields:
        return None
    incarnation, boot_id, flushed, problem, resigned, begin, is_filling, *known = (
        field_values(_HeartbeatExtensionHeader, fields)
    )
    return HeartbeatExtension(
        parse_incarnation(incarnation),
        boot_id,
        flushed,
        problem,
        resigned,
        UNTOLD if begin == -1 and not is_filling else LogBegin(begin, is_filling),
        *known,
    )


@dataclass(frozen=True, slots=True)
class LeaseGrant:
    """
    A lease: how long a master may decide `leader` acks alone (C1).

    Attributes:
        length_ms: from the sending of the heartbeat; 0: no lease now.
        epoch: that the answered heartbeat names, also without a lease: a refusal is one
            for that epoch (C0).
    """

    length_ms: int = 0
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class _LeaseHeader:
    pystore_lease_ms: Int64 | None = None
    pystore_lease_epoch: Int64 = 0


def lease_fields(grant: LeaseGrant) -> dict[str, str]:
    """
    Returns the extension of the answer to a heartbeat; slaves get it without a lease.
    """
    return encode_fields(_LeaseHeader(grant.length_ms, grant.epoch))


def lease_of(fields: Fields) -> LeaseGrant | None:
    """
    Returns the lease; ``None``: this controller never grants leases.
    """
    header = decode_fields(_LeaseHeader, fields)
    if header.pystore_lease_ms is None:
        return None
    return LeaseGrant(max(0, header.pystore_lease_ms), header.pystore_lease_epoch)


# -- 1002: a master that asks for its successor --------------------------------


def handed_over_fields(handed_over: tuple[Incarnation, int] | None) -> dict[str, str]:
    """
    Returns the extension of a master's request for its successor.
    """
    if handed_over is None:
        return {}
    incarnation, epoch = handed_over
    return {_INCARNATION_FIELD: incarnation.text, HANDED_OVER: str(epoch)}


def handed_over_of(fields: Fields) -> tuple[Incarnation, int] | None:
    """
    Returns process and epoch of the master that asks for its successor; ``None``: an
    operator asks.

    Raises:
        MissingField: the extension is malformed.
    """
    epoch = fields.get(HANDED_OVER)
    if epoch is None:
        return None
    if not _BROKER_ID.fullmatch(epoch):
        raise malformed(f"{epoch[:32]!r} is not an epoch")
    return parse_incarnation(fields.get(_INCARNATION_FIELD, "")), int(epoch)


_HA_ADDRESS = "pystoreHaAddress"


def ha_address_fields(address: str) -> dict[str, str]:
    """
    Returns where a broker serves slaves, as an extension of its registration.
    """
    return {_HA_ADDRESS: address} if address else {}


def ha_address_of(fields: Fields) -> str:
    """
    Returns where a broker that registers serves slaves; empty: unknown, as of a Java
    broker.

    Raises:
        MissingField: it is no address.
    """
    address = fields.get(_HA_ADDRESS, "")
    try:
        if address:
            parse_address(address)
    except InvalidError as error:
        raise malformed(f"{_HA_ADDRESS}: {error}") from error
    return address


# -- 1007: which process answers --------------------------------------------


def process_fields(incarnation: Incarnation) -> dict[str, str]:
    """
    Returns the extension of a broker's answer to 1007.
    """
    return {_INCARNATION_FIELD: incarnation.text}


def process_of(fields: Fields) -> Incarnation | None:
    """
    Returns the process that answered 1007; ``None``: a Java broker.

    Raises:
        MissingField: the incarnation is malformed.
    """
    text = fields.get(_INCARNATION_FIELD)
    return None if text is None else parse_incarnation(text)


# -- 1003: the recovery of a process ---------------------------------


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
    pystore_begin_offset: Int64 = -1
    pystore_is_filling: bool = False
    pystore_starts: str = ""


def recovery_fields(recovery: Recovery) -> dict[str, str]:
    """
    Returns the extension of a registration.
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
            recovery.begin.offset,
            recovery.begin.is_filling,
            ";".join(one.text for one in recovery.starts),
        )
    )


def recovery_of(fields: Fields) -> Recovery | None:
    """
    Returns the extension of a registration; ``None``: a Java broker sent it.

    Raises:
        MissingField: the incarnation is malformed.
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
        LogBegin(header.pystore_begin_offset, header.pystore_is_filling),
        tuple(map(parse_incarnation, filter(None, header.pystore_starts.split(";")))),
    )


def standing_fields(standing: LogStanding) -> dict[str, str]:
    """
    Returns the extension of the answer to a registration.
    """
    return {_STANDING: standing.value}


def standing_of(fields: Fields) -> LogStanding | None:
    """
    Returns the standing; ``None``: a Java controller sent the answer.

    Raises:
        MissingField: an unknown standing.
    """
    text = fields.get(_STANDING)
    known = {one.value: one for one in LogStanding}
    if text is not None and text not in known:
        raise malformed(f"unknown standing {text[:32]!r}")
    return None if text is None else known[text]


_INCARNATION = re.compile(r"([0-9]{1,18})-([0-9a-f]{32})")


_KNOWN_MAX = 1 << 14  # of incarnations, each some hundred bytes


_BROKER_ID = re.compile(r"[0-9]{1,18}")


def malformed(what: str) -> MissingField:
    """
    Returns the error of a malformed extension: 2005.
    """
    return MissingField(what, ResponseCode.CONTROLLER_INVALID_REQUEST)


def members_text(members: frozenset[Member]) -> str | None:
    """
    Returns members as text, by ascending id; ``None``: there are none.
    """
    ordered = sorted(members, key=lambda one: one.broker_id)
    return ";".join(map(_member_text, ordered)) or None


def parse_members(text: str | None) -> frozenset[Member]:
    """
    Returns the members in a header field.

    Raises:
        MissingField: a member is malformed.
    """
    return frozenset(map(_parse_member, text.split(";"))) if text else frozenset()


def ids_text(broker_ids: frozenset[int]) -> str | None:
    """
    Returns ids as text, ascending; ``None``: there are none.
    """
    return ";".join(map(str, sorted(broker_ids))) or None


def parse_ids(text: str | None) -> frozenset[int]:
    """
    Returns the ids in a header field.

    Raises:
        MissingField: an id is malformed.
    """
    return frozenset(map(_parse_id, text.split(";"))) if text else frozenset()


@lru_cache(_KNOWN_MAX)
def parse_incarnation(text: str) -> Incarnation:
    """
    Parses `pystore.metastore.values.Incarnation.text`. Each broker sends its own once a
    second, so results are cached.

    Raises:
        MissingField: the text is malformed.
    """
    parts = _INCARNATION.fullmatch(text)
    if parts is None:
        raise malformed(f"{text[:64]!r} is not an incarnation")
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
        raise malformed(f"{text[:32]!r} is not a broker id")
    return int(text)
