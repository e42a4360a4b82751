"""
pystore's extensions of headers about masters and SyncStateSets. Pure.

Members are pairs of id and incarnation, beside RocketMQ's ids. Body and fields name the
same brokers. A refusal of 1001 names the brokers that caused it. A refusal with 2000 or
2001 has the present set in body and fields, for a master whose last answer was lost
(RMQ-R112).

Source: B1, B7, C3; RMQ-R111; `pystore.controller.protocol.extensions`.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.access.mode import AccessMode
from pystore.controller.model.commands import AlterSet
from pystore.controller.model.replies import MasterRecord
from pystore.controller.protocol.extensions import (
    Fields,
    ids_text,
    malformed,
    members_text,
    parse_ids,
    parse_incarnation,
    parse_members,
)
from pystore.remoting.fields import decode_fields, encode_fields
from pystore.replicaset import AgreedSet, Member, ids_of

__all__ = [
    "agreed_fields",
    "agreed_of",
    "alter_set_fields",
    "alter_set_of",
    "leadership_fields",
    "leadership_of",
    "learners_fields",
    "learners_of",
    "links_fields",
    "links_of",
    "refused_ids_fields",
    "refused_ids_of",
    "seen_version_fields",
    "seen_version_of",
]

_BROKER_IDS = "pystoreBrokerIds"
_LEARNERS = "pystoreLearners"
_LINKS = "pystoreLinks"
_SEEN_VERSION = "pystoreSeenVersion"
_DIGITS_MAX = 19


@dataclass(frozen=True, slots=True)
class _LeadershipHeader:
    pystore_master_incarnation: str | None = None
    pystore_waits_for_lease: bool = False
    pystore_ha_address: str | None = None


@dataclass(frozen=True, slots=True)
class _SetHeader:
    pystore_members: str | None = None
    pystore_candidates: str | None = None


def leadership_fields(leadership: MasterRecord | None) -> dict[str, str]:
    """
    Returns the extension of RocketMQ's fields about a master.
    """
    if leadership is None or leadership.master.incarnation is None:
        return {}
    incarnation = leadership.master.incarnation.text
    return encode_fields(
        _LeadershipHeader(
            incarnation, leadership.waits_for_lease, leadership.ha_address or None
        )
    )


def leadership_of(
    fields: Fields, broker_id: int, address: str, epoch: int
) -> MasterRecord:
    """
    Returns the master.

    Args:
        fields: all fields of the answer or notification.
        broker_id: from RocketMQ's fields, like address and epoch.
        address: of the master.
        epoch: of its mastership.

    Raises:
        MissingField: the incarnation is malformed.
    """
    header = decode_fields(_LeadershipHeader, fields)
    master = _process(broker_id, header.pystore_master_incarnation)
    return MasterRecord(
        master,
        address,
        epoch,
        header.pystore_waits_for_lease,
        header.pystore_ha_address or "",
    )


def agreed_fields(agreed: AgreedSet) -> dict[str, str]:
    """
    Returns the extension of RocketMQ's body of a SyncStateSet.
    """
    return encode_fields(
        _SetHeader(members_text(agreed.members), members_text(agreed.candidates))
    )


def agreed_of(fields: Fields, broker_ids: frozenset[int], set_epoch: int) -> AgreedSet:
    """
    Returns the set.

    Args:
        fields: all fields of the answer or notification.
        broker_ids: of the body.
        set_epoch: of the body.

    Raises:
        MissingField: fields and body name different brokers.
    """
    members, candidates = _members_of(fields, broker_ids)
    return AgreedSet(members, set_epoch, candidates)


def learners_fields(broker_ids: frozenset[int]) -> dict[str, str]:
    """
    Returns which brokers of the set are learners, beside each SyncStateSet that is told
    to brokers.
    """
    text = ids_text(broker_ids)
    return {} if text is None else {_LEARNERS: text}


def learners_of(fields: Fields) -> frozenset[int]:
    """
    Returns which brokers of the set are learners; empty: none, or a controller of
    RocketMQ, which knows no learners.

    Raises:
        MissingField: an id is malformed.
    """
    return parse_ids(fields.get(_LEARNERS))


def links_fields(mode: AccessMode | None) -> dict[str, str]:
    """
    Returns how the controllers guard links, beside each master that is told; ``None``:
    they give no secrets.
    """
    return {} if mode is None else {_LINKS: mode.value}


def links_of(fields: Fields) -> AccessMode | None:
    """
    Returns how the controllers guard links; ``None``: they give no secrets, or are
    RocketMQ's.

    Raises:
        MissingField: an unknown mode.
    """
    text = fields.get(_LINKS)
    known = {one.value: one for one in AccessMode}
    if text is not None and text not in known:
        raise malformed(f"unknown mode {text[:32]!r}")
    return None if text is None else known[text]


@dataclass(frozen=True, slots=True)
class _AlterSetHeader:
    pystore_incarnation: str | None = None
    pystore_is_fence: bool = False
    pystore_filling_ids: str | None = None


def alter_set_fields(command: AlterSet) -> dict[str, str]:
    """
    Returns the extension of the request.
    """
    if command.master.incarnation is None:
        return {}
    agreed = AgreedSet(command.members, command.set_epoch, command.candidates)
    own = _AlterSetHeader(
        command.master.incarnation.text, command.is_fence, ids_text(command.filling)
    )
    return encode_fields(own) | agreed_fields(agreed)


def alter_set_of(
    fields: Fields,
    master_id: int,
    epoch: int,
    broker_ids: frozenset[int],
    set_epoch: int,
) -> AlterSet:
    """
    Decodes the command of a master.

    Args:
        fields: all fields of the request.
        master_id: from RocketMQ's fields, like the epoch.
        epoch: of the mastership.
        broker_ids: of the body: the new set.
        set_epoch: of the body: of the set that it was computed from.

    Raises:
        MissingField: an incarnation is malformed, or fields and body name different
            brokers.
    """
    header = decode_fields(_AlterSetHeader, fields)
    master = _process(master_id, header.pystore_incarnation)
    members, candidates = _members_of(fields, broker_ids)
    return AlterSet(
        master,
        epoch,
        set_epoch,
        members,
        candidates,
        header.pystore_is_fence,
        parse_ids(header.pystore_filling_ids),
    )


def refused_ids_fields(broker_ids: frozenset[int]) -> dict[str, str]:
    """
    Returns the extension of a refusal: the brokers that caused it (RMQ-R111).
    """
    text = ids_text(broker_ids)
    return {} if text is None else {_BROKER_IDS: text}


def refused_ids_of(fields: Fields) -> frozenset[int]:
    """
    Returns the brokers that caused a refusal; empty: unknown.

    Raises:
        MissingField: an id is malformed.
    """
    return parse_ids(fields.get(_BROKER_IDS))


def seen_version_fields(version: int | None) -> dict[str, str]:
    """
    Returns the extension of 1011 and 7102: they are carried out only while the record
    of the set has this version; ``None``: whatever it has.
    """
    return {} if version is None else {_SEEN_VERSION: str(version)}


def seen_version_of(fields: Fields) -> int | None:
    """
    Returns the version of the set as the requester saw it; ``None``: it named none.

    Raises:
        MissingField: it is no number.
    """
    text = fields.get(_SEEN_VERSION)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
        # Taken for none it would be carried out whatever the set is like.
        raise malformed(f"{text[:32]!r} is no version of a set")
    return int(text)


def _process(broker_id: int, text: str | None) -> Member:
    return Member(broker_id, None if text is None else parse_incarnation(text))


def _members_of(
    fields: Fields, broker_ids: frozenset[int]
) -> tuple[frozenset[Member], frozenset[Member]]:
    """
    Returns members and candidates; those of a Java peer have ids only.
    """
    header = decode_fields(_SetHeader, fields)
    candidates = parse_members(header.pystore_candidates)
    if header.pystore_members is None:
        return frozenset(map(Member, broker_ids)), candidates
    members = parse_members(header.pystore_members)
    if ids_of(members) != broker_ids:
        raise malformed("pystoreMembers and syncStateSet name different brokers")
    return members, candidates
