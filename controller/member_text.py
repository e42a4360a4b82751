"""
Members, incarnations and broker ids as the text of a header. Pure.

``ID@COUNTER-BITS;ID``: a Java broker has no incarnation. Nobody at all is no text, as
RocketMQ's binary headers cannot tell empty text from none.

Source: safety B1; docs/identity.md.
"""

from __future__ import annotations

import re
from functools import lru_cache

from pystore.controller.member import Member
from pystore.remoting.codes import ResponseCode
from pystore.remoting.fields import MissingField
from pystore.truth import Incarnation

__all__ = [
    "ids_text",
    "malformed",
    "members_text",
    "parse_ids",
    "parse_incarnation",
    "parse_members",
]

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
    Returns the incarnation of which this is `pystore.truth.Incarnation.text`; each
    broker says its own every second.

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
