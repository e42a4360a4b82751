"""
Dead segments: no good copy was found, so no worker can repair them.

They leave the queue, so that they block neither workers nor a decommission, and stay
visible until a copy turns up (`revive`) or an operator gives them up (`forget`).

Source: AR-R9; docs/autorecovery.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pystore.autorecovery.auditor_term import check_term
from pystore.autorecovery.claim import Claim, end_claim
from pystore.autorecovery.mark import (
    SegmentMark,
    encode_mark,
    mark_fields,
    mark_of_fields,
)
from pystore.autorecovery.record_form import decode_form, encode_form
from pystore.autorecovery.segment_key import SegmentKey
from pystore.errors import UnknownOutcomeError
from pystore.records.ops import ABSENT, CheckVersion, Delete, Op, Put
from pystore.records.record_store import RecordStore

__all__ = [
    "ASKED",
    "DeadSegment",
    "bury",
    "decode_dead",
    "encode_dead",
    "is_offered",
    "revive",
]

ASKED = "asked"
"""The name of the field of `DeadSegment.more` with the incarnations that answered."""

_KNOWN = ("mark", "evidence", "at_ms", "by")


@dataclass(frozen=True, slots=True)
class DeadSegment:
    """
    The record of a dead segment.

    Attributes:
        mark: its last mark.
        evidence: what the worker found at each replica, for people.
        at_ms: when it was buried, Unix time.
        by: the slot of the worker that did it.
        more: fields of a later program, kept as they are.
    """

    mark: SegmentMark
    evidence: str
    at_ms: int
    by: str
    more: Mapping[str, object] = field(default_factory=dict)


def encode_dead(dead: DeadSegment) -> bytes:
    """
    Returns the record of a dead segment.
    """
    own = {"evidence": dead.evidence, "at_ms": dead.at_ms, "by": dead.by}
    return encode_form({**dead.more, **own, "mark": mark_fields(dead.mark)})


def decode_dead(raw: bytes, where: str) -> DeadSegment:
    """
    Returns the dead segment of a record.

    Raises:
        FormatError: it is none, or has a later form.
    """
    fields = decode_form(raw, where)
    return DeadSegment(
        mark_of_fields(fields.inner("mark")),
        fields.text("evidence"),
        fields.number("at_ms"),
        fields.text("by"),
        fields.other_than(_KNOWN),
    )


def bury(
    store: RecordStore,
    claim: Claim,
    evidence: str,
    now_ms: int,
    asked: Mapping[int, str] | None = None,
) -> bool:
    """
    Moves a claimed segment from the queue to the dead ones, in one commit.

    Args:
        store: of the claim.
        claim: of the segment.
        evidence: what was found at each replica, for people.
        now_ms: Unix time.
        asked: the incarnation of each replica that answered, by broker id; ``None``: of
            none.

    Returns:
        Whether it was done; not, if it was marked meanwhile.
    """
    more: dict[str, object] = {}
    if asked is not None:
        more[ASKED] = {str(broker_id): one for broker_id, one in asked.items()}
    dead = DeadSegment(claim.mark, evidence, now_ms, claim.worker, more)
    return end_claim(
        store,
        claim,
        [
            claim.is_unmarked,
            Delete(claim.key.mark),
            Put(claim.key.dead, encode_dead(dead)),
        ],
    )


def is_offered(dead: DeadSegment, alive: Mapping[int, str]) -> bool:
    """
    Returns whether a replica is alive that did not answer when the segment was buried:
    it was dead, has started again, or is new in the set. Its copy may be good.

    Args:
        dead: the segment.
        alive: the incarnations of the replicas of its set that are alive now, by broker
            id; brokers of RocketMQ have none, and are left out.
    """
    asked = dead.more.get(ASKED)
    known = asked if isinstance(asked, Mapping) else {}
    return any(known.get(str(one)) != start for one, start in alive.items())


def revive(
    store: RecordStore, key: SegmentKey, now_ms: int, term: CheckVersion | None = None
) -> bool:
    """
    Moves a dead segment back to the queue, where it is tried at once.

    Args:
        store: of the queue.
        key: of the segment.
        now_ms: Unix time.
        term: the check of the Auditor's term; ``None``: an operator does it.

    Returns:
        Whether it was dead. A mark that it has already stays as it is.

    Raises:
        FormatError: the record has a later form, or is damaged.
        FencedError: the term has ended.
    """
    while True:
        found = store.get(key.dead)
        if found is None:
            return False
        ops: list[Op] = [CheckVersion(key.dead, found.version), Delete(key.dead)]
        if store.get(key.mark) is None:
            old = decode_dead(found.value, found.key).mark
            mark = replace(
                old, tries=0, no_copy_tries=0, not_before_ms=0, last_ms=now_ms
            )
            ops += [CheckVersion(key.mark, ABSENT), Put(key.mark, encode_mark(mark))]
        try:
            if store.commit([*ops, *([] if term is None else [term])]) is not None:
                return True
        except UnknownOutcomeError:
            # The records show it.
            if store.get(key.dead) is None:
                return True
            continue
        check_term(store, term)
