"""
What a controller and a broker in another process say to each other: lines of JSON.

The controller orders by ``do``: ``stand`` (stop following, tell where the log ends),
``lead``, ``follow``, ``answer`` (to a change of the set), ``status``, ``rest`` (append
no more) and ``close``. A broker tells by ``told``: ``up``, ``standing``, ``leading``,
``following``, ``ask``, ``status``, ``said`` and ``broken``.
"""

from __future__ import annotations

import json
from typing import Any

from pystore.ha.insync.set_change import SetChange
from pystore.replicaset import AgreedSet, Incarnation, Member

__all__ = [
    "Line",
    "change_of",
    "line_of",
    "member_of",
    "pack_change",
    "pack_member",
    "pack_set",
    "set_of",
]

Line = dict[str, Any]
"""One order, or one thing told."""


def line_of(line: Line) -> bytes:
    """
    Returns the bytes of a line.
    """
    return json.dumps(line).encode() + b"\n"


def pack_member(member: Member) -> Any:
    """
    Returns a member as JSON has it.
    """
    start = member.incarnation
    assert start is not None
    return [member.broker_id, start.counter, start.bits.hex()]


def member_of(packed: Any) -> Member:
    """
    Returns what `pack_member` packed.
    """
    broker_id, counter, bits = packed
    return Member(broker_id, Incarnation(counter, bytes.fromhex(bits)))


def _pack_members(members: frozenset[Member]) -> Any:
    return [pack_member(one) for one in sorted(members, key=lambda it: it.broker_id)]


def _members_of(packed: Any) -> frozenset[Member]:
    return frozenset(map(member_of, packed))


def pack_set(agreed: AgreedSet) -> Any:
    """
    Returns a set as JSON has it.
    """
    return [
        _pack_members(agreed.members),
        agreed.set_epoch,
        _pack_members(agreed.candidates),
    ]


def set_of(packed: Any) -> AgreedSet:
    """
    Returns what `pack_set` packed.
    """
    members, set_epoch, candidates = packed
    return AgreedSet(_members_of(members), set_epoch, _members_of(candidates))


def pack_change(change: SetChange) -> Any:
    """
    Returns a change of the set as JSON has it.
    """
    return {
        "attempt": change.attempt,
        "epoch": change.epoch,
        "set_epoch": change.set_epoch,
        "members": _pack_members(change.members),
        "candidates": _pack_members(change.candidates),
        "reason": change.reason,
        "is_fence": change.is_fence,
    }


def change_of(packed: Any) -> SetChange:
    """
    Returns what `pack_change` packed.
    """
    members, candidates = packed["members"], packed["candidates"]
    sets = {"members": _members_of(members), "candidates": _members_of(candidates)}
    return SetChange(**{**packed, **sets})
