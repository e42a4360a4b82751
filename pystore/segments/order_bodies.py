"""
The bodies of 7120 to 7122: what a replica is asked to do with a segment, and what it
answers, as JSON. Pure.

Source: docs/autorecovery.md, *Orders to a replica*.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from pystore.errors import RemoteViolation
from pystore.remoting.json_body import (
    parse_body,
    read_list,
    read_object,
    read_value,
    render_body,
)
from pystore.segments.order import (
    BadSource,
    OrderAction,
    OrderOutcome,
    OrderProgress,
    ReplicaStat,
    SegmentOrder,
)

__all__ = [
    "CLAIM_CHARS_MAX",
    "decode_order",
    "decode_progress",
    "decode_stat",
    "encode_order",
    "encode_progress",
    "encode_stat",
]

CLAIM_CHARS_MAX = 512
"""Of the name of a job."""

_E = TypeVar("_E", bound=Enum)
_T = TypeVar("_T", int, str)


def encode_stat(stat: ReplicaStat) -> bytes:
    """
    Returns the body of the answer to 7120.
    """
    return render_body(
        {
            "incarnation": stat.incarnation,
            "beginOffset": stat.begin,
            "endOffset": stat.end,
            "settledEnd": stat.settled_end,
            "segmentSize": stat.segment_size,
            "segmentsAddress": stat.segments_address,
            "problems": [[base, why] for base, why in sorted(stat.problems.items())],
            "badSources": [[one.broker_id, one.offset] for one in stat.bad_sources],
            "cutGeneration": stat.cut_generation,
            "holes": [[base, why] for base, why in sorted(stat.holes.items())],
        }
    )


def decode_stat(body: bytes) -> ReplicaStat:
    """
    Returns what a replica says about its copy.

    Raises:
        RemoteViolation: the body is malformed, or no log is so.
    """
    row = read_object(parse_body(body), "7120's answer")
    found = ReplicaStat(
        read_value(row, "incarnation", str),
        read_value(row, "beginOffset", int),
        read_value(row, "endOffset", int),
        read_value(row, "settledEnd", int),
        read_value(row, "segmentSize", int),
        read_value(row, "segmentsAddress", str),
        dict(_pairs(row, "problems", str)),
        tuple(BadSource(*one) for one in _pairs(row, "badSources", int)),
        # A broker of an earlier version tells neither this nor holes.
        read_value({"cutGeneration": -1, **row}, "cutGeneration", int),
        dict(_pairs({"holes": [], **row}, "holes", str)),
    )
    if not 0 <= found.begin <= found.end or found.segment_size <= 0:
        raise RemoteViolation(
            f"no log is so: {found.begin}, {found.end}, {found.segment_size}"
        )
    return found


def encode_order(order: SegmentOrder) -> bytes:
    """
    Returns the body of 7121.
    """
    return render_body(
        {
            "claim": order.claim,
            "segment": order.base,
            "action": order.action.value,
            "sources": order.sources,
            "blocks": order.blocks,
            "bytesPerSecond": order.bytes_per_second,
            "replaces": order.replaces,
            "serveBytesPerSecond": order.serve_bytes_per_second,
        }
    )


def decode_order(body: bytes) -> SegmentOrder:
    """
    Returns the job that is ordered.

    Raises:
        RemoteViolation: the body is malformed.
    """
    row = read_object(parse_body(body), "7121")
    found = SegmentOrder(
        read_value(row, "claim", str),
        read_value(row, "segment", int),
        _member(OrderAction, row, "action"),
        tuple(_values(row, "sources", str)),
        tuple(_values(row, "blocks", int)),
        read_value(row, "bytesPerSecond", int),
        read_value(row, "replaces", str),
        # A worker of an earlier version does not tell it.
        read_value({"serveBytesPerSecond": -1, **row}, "serveBytesPerSecond", int),
    )
    if not 0 < len(found.claim) <= CLAIM_CHARS_MAX:
        raise RemoteViolation(f"7121 with a claim of {len(found.claim)} characters")
    least = found.base, found.bytes_per_second, found.serve_bytes_per_second + 1
    if min(*least, *found.blocks, 0):
        raise RemoteViolation("7121 with a negative number")
    return found


def encode_progress(progress: OrderProgress) -> bytes:
    """
    Returns the body of the answers to 7121 and 7122.
    """
    return render_body(
        {
            "outcome": progress.outcome.value,
            "detail": progress.detail,
            "badBlocks": list(progress.bad_blocks),
            "movedBytes": progress.moved_bytes,
            "digest": progress.digest,
            "isSealed": progress.is_sealed,
        }
    )


def decode_progress(body: bytes) -> OrderProgress:
    """
    Returns how far a job is.

    Raises:
        RemoteViolation: the body is malformed.
    """
    row = read_object(parse_body(body), "the progress of a job")
    return OrderProgress(
        _member(OrderOutcome, row, "outcome"),
        read_value(row, "detail", str),
        tuple(_values(row, "badBlocks", int)),
        read_value(row, "movedBytes", int),
        read_value(row, "digest", str),
        read_value(row, "isSealed", bool),
    )


def _member(kind: Callable[[str], _E], row: dict[str, Any], name: str) -> _E:
    text = read_value(row, name, str)
    try:
        return kind(text)
    except ValueError as error:
        # Of a later version, or none at all.
        raise RemoteViolation(f"a body whose {name} is {text[:32]!r}") from error


def _values(row: dict[str, Any], name: str, kind: type[_T]) -> list[_T]:
    found = read_list(row.get(name), name)
    return [read_value({name: one}, name, kind) for one in found]


def _pairs(row: dict[str, Any], name: str, kind: type[_T]) -> list[tuple[int, _T]]:
    pairs = []
    for one in read_list(row.get(name), name):
        pair = read_list(one, name)
        if len(pair) != 2:
            raise RemoteViolation(f"a body whose {name} has no pairs")
        first, second = pair
        number = read_value({name: first}, name, int)
        pairs.append((number, read_value({name: second}, name, kind)))
    return pairs
