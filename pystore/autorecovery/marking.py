"""
Marks segments: new facts are merged into the marks that there are, by their versions.

Source: BK-A44 to BK-A47; AR-R9; docs/autorecovery.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from pystore.autorecovery.auditor_term import check_term
from pystore.autorecovery.mark import (
    Missing,
    Priority,
    SegmentMark,
    decode_mark,
    encode_mark,
)
from pystore.autorecovery.segment_key import DEAD, MARKS, SegmentKey
from pystore.errors import FormatError, InvalidError, UnknownOutcomeError
from pystore.records.ops import ABSENT, CheckVersion, Op, Put, commit_bytes
from pystore.records.record_store import RecordStore, StoredRecord

__all__ = ["MarkOutcome", "NewMark", "mark_all"]

_OPS_MAX = 500
_BYTES_MAX = 600_000
_FEW = 8


class MarkOutcome(Enum):
    """
    What became of a new mark.
    """

    NEW = "new"
    MERGED = "merged"
    SAME = "same"  # nothing was written
    DEAD = "dead"  # the segment is known to have no good copy: nothing was written
    DAMAGED = "damaged"  # its record cannot be read: nothing was written


@dataclass(frozen=True, slots=True)
class NewMark:
    """
    The facts about one segment.

    Attributes:
        key: of the segment.
        missing: why copies are missing, by broker id; at least one.
        priority: how urgent the repair is.
        size: bytes of the segment; 0: unknown.

    Raises:
        InvalidError: no copy is missing.
    """

    key: SegmentKey
    missing: Mapping[int, Missing]
    priority: Priority
    size: int = 0

    def __post_init__(self) -> None:
        if not self.missing:
            raise InvalidError(f"{self.key.text}: a mark names a missing copy")


def mark_all(
    store: RecordStore,
    marks: Iterable[NewMark],
    by: str,
    now_ms: int,
    term: CheckVersion | None,
) -> Counter[MarkOutcome]:
    """
    Marks segments, in commits of at most 500 operations.

    Args:
        store: of the queue.
        marks: any number; facts about the same segment are merged.
        by: who marks, for people.
        now_ms: Unix time.
        term: the check of the Auditor's term, for each commit; ``None``: none.

    Returns:
        How many segments had which outcome.

    Raises:
        FencedError: the term has ended.
    """
    wanted: dict[SegmentKey, SegmentMark] = {}
    for one in marks:
        facts = SegmentMark(
            one.missing, one.priority, now_ms, now_ms, size=one.size, by=by
        )
        known = wanted.get(one.key)
        merged = facts if known is None else known.with_facts(facts) or known
        wanted[one.key] = merged
    outcomes: dict[SegmentKey, MarkOutcome] = {}
    for batch in _batches(wanted):
        _mark_batch(store, batch, term, outcomes)
    return Counter(outcomes.values())


def _batches(
    wanted: Mapping[SegmentKey, SegmentMark],
) -> Iterator[dict[SegmentKey, SegmentMark]]:
    """
    Yields parts of which each is one commit, in the order of the keys.
    """
    if len(wanted) == 1:
        # It cannot be divided: its size does not matter.
        yield dict(wanted)
        return
    batch: dict[SegmentKey, SegmentMark] = {}
    size = 0
    for key in sorted(wanted, key=lambda one: one.text):
        # Twice: what is known already may be as large, and is written again.
        more = 2 * commit_bytes([Put(key.mark, encode_mark(wanted[key]))])
        # A check, a put, and the check of the term.
        if batch and (2 * len(batch) + 3 > _OPS_MAX or size + more > _BYTES_MAX):
            yield batch
            batch, size = {}, 0
        batch[key] = wanted[key]
        size += more
    if batch:
        yield batch


def _mark_batch(
    store: RecordStore,
    batch: Mapping[SegmentKey, SegmentMark],
    term: CheckVersion | None,
    outcomes: dict[SegmentKey, MarkOutcome],
) -> None:
    is_unknown = False
    while True:
        ops: list[Op] = []
        found = _found(store, [key.mark for key in batch])
        dead = _found(store, [k.dead for k in batch if k.mark not in found])
        for key, facts in batch.items():
            if key.dead in dead:
                outcome, mark, version = MarkOutcome.DEAD, None, 0
            else:
                outcome, mark, version = _merged(found.get(key.mark), facts)
            if mark is not None:
                ops += [
                    CheckVersion(key.mark, version),
                    Put(key.mark, encode_mark(mark)),
                ]
            # After a lost answer the same fact is the one that was written.
            if not (is_unknown and outcome is MarkOutcome.SAME):
                outcomes[key] = outcome
        if not ops:
            return
        try:
            if store.commit([*ops, *([] if term is None else [term])]) is not None:
                return
        except UnknownOutcomeError:
            # The records show what was done.
            is_unknown = True
            continue
        # Another marker was faster, or the term is over: then every try would fail.
        check_term(store, term)


def _merged(
    found: StoredRecord | None, facts: SegmentMark
) -> tuple[MarkOutcome, SegmentMark | None, int]:
    """
    Returns the outcome, what is to be written, and the version that it replaces.
    """
    if found is None:
        return MarkOutcome.NEW, facts, ABSENT
    try:
        if found.damage:
            return MarkOutcome.DAMAGED, None, 0
        merged = decode_mark(found.value, found.key).with_facts(facts)
    except FormatError:
        # BK-A47: it is not overwritten; the summary tells it.
        return MarkOutcome.DAMAGED, None, 0
    outcome = MarkOutcome.SAME if merged is None else MarkOutcome.MERGED
    return outcome, merged, found.version


def _found(store: RecordStore, keys: Sequence[str]) -> dict[str, StoredRecord]:
    """
    Returns those of some sorted keys of one kind that there are.

    Few are read one by one, as are those behind too many other ones; the others by a
    scan, which costs ZooKeeper far fewer round trips.
    """
    found: dict[str, StoredRecord] = {}
    left = list(keys)
    if len(left) > _FEW:
        prefix = MARKS if left[0].startswith(MARKS) else DEAD
        limit = 2 * len(left)
        # All keys with this bound in front are greater; few others are.
        page = store.scan(prefix, left[0][:-1], limit)
        found = {one.key: one for one in page}
        last = page[-1].key if len(page) == limit else left[-1]
        left = [key for key in left if key > last]
    for key in left:
        one = _read(store, key)
        if one is not None:
            found[key] = one
    return found


def _read(store: RecordStore, key: str) -> StoredRecord | None:
    try:
        return store.get(key)
    except FormatError as error:
        # A damaged row of LMDB.
        return StoredRecord(key, b"", 0, str(error))
