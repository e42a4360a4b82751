"""
The mark of a segment: which copies are missing, why, and how urgent that is. Pure.

A mark is a hint: a worker looks at the replicas itself. It needs evidence all the same:
a definite answer of the replica itself, or the word of the leading controller
that the replica is dead, and since when. A time-out or an overload marks nothing, so
there is no reason for them.

Source: AR-R5, AR-R6, AR-R11; BK-A42 to BK-A48; docs/autorecovery.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from functools import lru_cache

from pystore.autorecovery.record_form import RecordFields, decode_form, encode_form
from pystore.errors import InvalidError

__all__ = [
    "Missing",
    "Priority",
    "Reason",
    "SegmentMark",
    "decode_mark",
    "encode_mark",
    "mark_fields",
    "mark_of_fields",
]

_KNOWN = frozenset(
    (
        *("missing", "priority", "first", "last", "tries", "not_before_ms"),
        *("bytes", "by", "front_ms", "why", "found", "no_copy_tries"),
    )
)
_KNOWN_OF_FACT = frozenset(("reason", "detail", "since_ms", "blocks"))


class Reason(Enum):
    """
    Why a copy counts as missing.
    """

    LOST = "LOST"  # the leading controller says that the replica is dead
    ABSENT = "ABSENT"  # the replica says that it lacks the segment
    CORRUPT = "CORRUPT"  # the replica's blocks differ from their seal
    DIVERGENT = "DIVERGENT"  # the replica's bytes are whole, but other ones
    MISPLACED = "MISPLACED"  # against the rule of racks
    DRAIN = "DRAIN"  # an operator empties its host
    FILL = "FILL"  # a replica that still fills its history lacks it


class Priority(IntEnum):
    """
    How urgent a repair is; the smallest number first.
    """

    LAST_COPY = 0  # at most one good copy
    FEWER_THAN_ACKS = 1  # fewer than an acknowledgement needs
    FEWER_THAN_WANTED = 2
    DRAIN = 3
    MISPLACED = 4


@dataclass(frozen=True, slots=True)
class Missing:
    """
    Why one copy is missing, with the evidence.

    Attributes:
        reason: the kind.
        detail: what the replica or the controller answered, one line.
        since_ms: since when, in milliseconds of Unix time; 0: unknown, but not of
            `Reason.LOST`.
        blocks: the numbers of the bad blocks, rising; only of `Reason.CORRUPT`.
        more: fields of a later program, kept as they are.

    Raises:
        InvalidError: evidence is missing, or does not belong to the reason.
    """

    reason: Reason
    detail: str = ""
    since_ms: int = 0
    blocks: tuple[int, ...] = ()
    more: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.reason is Reason.LOST and self.since_ms <= 0:
            raise InvalidError(
                "a replica is LOST only by the word of the leading controller: give "
                "since when"
            )
        if (self.reason is Reason.CORRUPT) != bool(self.blocks):
            raise InvalidError(
                f"bad blocks {self.blocks} do not belong to {self.reason.value}: "
                "CORRUPT names its blocks, and no other reason has any"
            )
        if (
            list(self.blocks) != sorted(set(self.blocks))
            or min(self.blocks or (0,)) < 0
        ):
            raise InvalidError(f"the bad blocks {self.blocks} do not rise from 0 on")

    def tells(self, other: Missing) -> bool:
        """
        Returns whether this is the same fact as another one, or has it in it. The
        detail and the time do not count: each audit would write each record again.
        """
        return self.reason is other.reason and set(self.blocks) >= set(other.blocks)

    def with_fact(self, other: Missing) -> Missing:
        """
        Returns what is known after another fact about the same copy: the later reason
        counts, bad blocks add up.
        """
        if self.tells(other):
            return self
        known = self.blocks if self.reason is other.reason else ()
        return replace(other, blocks=tuple(sorted({*known, *other.blocks})))


@dataclass(frozen=True, slots=True)
class SegmentMark:
    """
    The record of a segment that lacks a good copy.

    Attributes:
        missing: why each missing copy is missing, by the broker's id in its set.
        priority: how urgent the repair is.
        first_ms: when the segment was marked first, Unix time.
        last_ms: when a fact was added last.
        tries: failed repairs.
        not_before_ms: no worker takes it before this time.
        size: bytes of the segment; 0: unknown.
        by: which part marked it last, for people.
        front_ms: when an operator put it in front of all others; 0: never.
        why: what the last try needed, one line; empty: there was none (AR-R18).
        found: what the last try found at each copy, one line, by broker id.
        no_copy_tries: failed repairs in a row in which every copy answered, and none
            had the bytes that were needed (AR-R9).
        more: fields of a later program, kept as they are.
    """

    missing: Mapping[int, Missing]
    priority: Priority
    first_ms: int
    last_ms: int
    tries: int = 0
    not_before_ms: int = 0
    size: int = 0
    by: str = ""
    front_ms: int = 0
    why: str = ""
    found: Mapping[int, str] = field(default_factory=dict)
    no_copy_tries: int = 0
    more: Mapping[str, object] = field(default_factory=dict)

    @property
    def urgency(self) -> tuple[bool, int, Priority, int]:
        """
        Sorts marks: the most urgent first, of equal ones the oldest.
        """
        return not self.front_ms, self.front_ms, self.priority, self.first_ms

    @property
    def rank(self) -> tuple[bool, Priority]:
        """
        The marks of one rank are equally urgent: workers may take any of them first.
        """
        return not self.front_ms, self.priority

    def with_facts(self, other: SegmentMark) -> SegmentMark | None:
        """
        Returns the mark with the facts of a later one; ``None``: it has them already
        (BK-A44, BK-A45).

        The back-off stays: facts about a copy do not make a failed repair succeed.
        """
        missing = dict(self.missing)
        for broker_id, fact in other.missing.items():
            known = missing.get(broker_id)
            missing[broker_id] = fact if known is None else known.with_fact(fact)
        priority = min(self.priority, other.priority)
        if missing == self.missing and priority == self.priority:
            return None
        return replace(
            self,
            missing=missing,
            priority=priority,
            last_ms=other.last_ms,
            size=other.size or self.size,
            by=other.by,
        )


def encode_mark(mark: SegmentMark) -> bytes:
    """
    Returns the record of a mark.
    """
    return encode_form(mark_fields(mark))


def decode_mark(raw: bytes, where: str) -> SegmentMark:
    """
    Returns the mark of a record, perhaps the same object again: nothing changes a mark.

    Raises:
        FormatError: it is none, or has a later form.
    """
    return _decoded(raw, where)


@lru_cache(maxsize=1024)
def _decoded(raw: bytes, where: str) -> SegmentMark:
    """
    Returns the mark of a record: the same one is read by each look at a segment that
    rests, and again at the end of a claim.
    """
    return mark_of_fields(decode_form(raw, where))


def mark_fields(mark: SegmentMark) -> dict[str, object]:
    """
    Returns the fields of a mark, for a record.
    """
    tried: dict[str, object] = {}
    if mark.why:
        tried["why"] = mark.why
    if mark.found:
        tried["found"] = {str(one): text for one, text in mark.found.items()}
    if mark.no_copy_tries:
        tried["no_copy_tries"] = mark.no_copy_tries
    return {
        **mark.more,
        **tried,
        "missing": {
            str(broker_id): _fact_fields(fact)
            for broker_id, fact in mark.missing.items()
        },
        "priority": int(mark.priority),
        "first": mark.first_ms,
        "last": mark.last_ms,
        "tries": mark.tries,
        "not_before_ms": mark.not_before_ms,
        "bytes": mark.size,
        "by": mark.by,
        "front_ms": mark.front_ms,
    }


def mark_of_fields(fields: RecordFields) -> SegmentMark:
    """
    Returns the mark of a record's fields.

    Raises:
        FormatError: a field is missing or has an invalid value.
    """
    missing, values = fields.inner("missing"), fields.values
    found = fields.inner("found") if "found" in values else None
    try:
        priority = Priority(fields.number("priority"))
        facts = {int(name): _fact(missing.inner(name)) for name in missing.values}
        looks = {int(name): found.text(name) for name in found.values} if found else {}
    except ValueError as error:
        # An unknown reason or priority, a fact without its evidence, or no broker id.
        raise fields.bad(str(error)) from error
    return SegmentMark(
        missing=facts,
        priority=priority,
        first_ms=fields.number("first"),
        last_ms=fields.number("last"),
        tries=fields.number("tries"),
        not_before_ms=fields.number("not_before_ms"),
        size=fields.number("bytes"),
        by=fields.text("by"),
        front_ms=fields.number("front_ms"),
        why=fields.text("why") if "why" in values else "",
        found=looks,
        no_copy_tries=(
            fields.number("no_copy_tries") if "no_copy_tries" in values else 0
        ),
        more=fields.other_than(_KNOWN),
    )


def _fact_fields(fact: Missing) -> dict[str, object]:
    fields: dict[str, object] = {
        **fact.more,
        "reason": fact.reason.value,
        "detail": fact.detail,
    }
    if fact.since_ms:
        fields["since_ms"] = fact.since_ms
    if fact.blocks:
        fields["blocks"] = list(fact.blocks)
    return fields


def _fact(fields: RecordFields) -> Missing:
    return Missing(
        reason=Reason(fields.text("reason")),
        detail=fields.text("detail"),
        since_ms=fields.number("since_ms") if "since_ms" in fields.values else 0,
        blocks=tuple(fields.list_of("blocks", int))
        if "blocks" in fields.values
        else (),
        more=fields.other_than(_KNOWN_OF_FACT),
    )
