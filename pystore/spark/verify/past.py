"""
What past rounds know: the newest verdicts, and which bytes changed since. Pure.

A round may check a part of the segments, or of their blocks. So a bad verdict stays
until a later check of the same bytes finds nothing, a store that was there and is gone
has a verdict, and the digests of blocks are compared with those of the last check.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from pystore.seals import BLOCK_BYTES
from pystore.spark.plan.paths import is_named
from pystore.spark.verify.run import VerifyRun
from pystore.spark.verify.verdicts import NOTE, SegmentVerdict, Verdict

__all__ = ["Past", "merge_rounds", "with_lost_stores"]

Key = tuple[str, int | None, str]


def _key(one: SegmentVerdict) -> Key:
    return one.store, one.segment, one.name


@dataclass(frozen=True, slots=True)
class Past:
    """
    The newest verdict of everything that was ever checked.

    Attributes:
        rows: by store, segment and name. Each has its round.
        last: the number of the last round; -1: there is none.
    """

    rows: Mapping[Key, SegmentVerdict] = field(default_factory=dict)
    last: int = -1

    @property
    def stores(self) -> frozenset[str]:
        """
        The stores of the past rounds.
        """
        return frozenset(store for store, _, _ in self.rows)

    @property
    def bad(self) -> dict[tuple[str, int], tuple[int, ...]]:
        """
        The bad blocks of each bad segment, by store and base offset.
        """
        found: dict[tuple[str, int], tuple[int, ...]] = {}
        for (store, segment, _), one in self.rows.items():
            if one.is_bad and segment is not None:
                known = found.get((store, segment), ())
                found[store, segment] = tuple(sorted({*known, *one.blocks}))
        return found


def with_lost_stores(
    past: Past, found: VerifyRun, forgotten: Collection[str] = ()
) -> VerifyRun:
    """
    Returns the round with a verdict for each store of past rounds that its paths name
    and that is not there.

    Args:
        past: the rounds before.
        found: this round.
        forgotten: roots of stores that were taken out of service.
    """
    groups = {store: one.group for (store, _, _), one in past.rows.items()}
    here = set(found.stores) - found.missing
    gone = {
        store
        for store in past.stores - here - set(forgotten)
        if is_named(store, found.paths)
    }
    text = (
        f"the store was checked up to round {past.last}, and is not there: is its disk "
        "mounted? If it is out of service, name it with --forget"
    )
    rows = [one for one in found.verdicts if one.store not in gone]
    rows += (
        SegmentVerdict(
            groups[store], store, None, Verdict.ABSENT, is_bad=True, evidence=[text]
        )
        for store in sorted(gone)
    )
    stores = [*found.stores, *sorted(gone - set(found.stores))]
    return replace(found, verdicts=rows, stores=stores)


def merge_rounds(
    past: Past, found: VerifyRun, forgotten: Collection[str] = ()
) -> VerifyRun:
    """
    Returns the newest verdict of everything over all rounds, as one round.

    Args:
        past: the rounds before.
        found: this round, with verdicts on lost stores. Its verdicts on segments whose
            bytes changed since they were checked last are completed.
        forgotten: roots of stores that were taken out of service.
    """
    for one in found.verdicts:
        one.round, one.verified_at = found.number, found.began
    _compare_digests(past, found)
    merged = {
        _key(one): _with_digests(one, past.rows.get(_key(one)))
        for one in found.verdicts
    }
    checked = {_key(one): one for one in found.verdicts}
    done = {
        (one.store, one.segment)
        for one in found.verdicts
        if not one.name and one.segment is not None
        if one.verdict not in (Verdict.UNKNOWN, Verdict.ABSENT)
    }
    for key, old in past.rows.items():
        if key[0] in forgotten:
            continue
        new = merged.get(key)
        if new is None:
            if _still_counts(old, found, done):
                merged[key] = old
        elif old.is_bad and not new.is_bad and not _clears(checked[key], old):
            text = f"found in round {old.round}; no later check read it again"
            evidence = [one for one in old.evidence if one != text]
            merged[key] = replace(old, evidence=[*evidence, text])
    rows = _without_cleared_queues(list(merged.values()), found)
    stores = [*found.stores]
    stores += sorted({one.store for one in rows} - set(stores))
    return replace(found, verdicts=rows, stores=stores)


def _with_digests(new: SegmentVerdict, old: SegmentVerdict | None) -> SegmentVerdict:
    """
    A verdict with the digests of the blocks that only earlier checks read, too.
    """
    if old is None or not new.is_sampled:
        return new
    known = dict(zip(new.read_blocks, new.block_digests, strict=False))
    least = min(old.length, new.length)
    for block, digest in zip(old.read_blocks, old.block_digests, strict=False):
        if (block + 1) * BLOCK_BYTES <= least or old.length == new.length:
            known.setdefault(block, digest)
    blocks = tuple(sorted(known))
    digests = tuple(known[block] for block in blocks)
    return replace(new, read_blocks=blocks, block_digests=digests)


def _still_counts(
    old: SegmentVerdict, found: VerifyRun, done: Collection[tuple[str, int | None]]
) -> bool:
    """
    Whether a verdict of a past round, of which this round has none, is the newest.
    """
    bases = found.bases.get(old.store)
    if bases is None:
        # The store could not be looked at, or is not of this run.
        return old.segment is not None or old.store not in found.stores
    if old.segment is None:
        # Small files are looked at in each round, queues with the segments.
        return old.name in QUEUE_NAMES and old.is_bad
    if old.name:
        return old.segment in bases and (old.store, old.segment) not in done
    return old.segment in bases and old.verdict is not Verdict.ABSENT


QUEUE_NAMES = ("consumequeue",)
"""Rows of a store that its segments' checks decide."""


def _without_cleared_queues(
    rows: list[SegmentVerdict], found: VerifyRun
) -> list[SegmentVerdict]:
    """
    A row about the queues counts until every segment was checked after it.
    """
    kept = []
    for one in rows:
        if one.segment is None and one.name in QUEUE_NAMES and one.round is not None:
            bases = found.bases.get(one.store, ())
            rounds = [
                row.round or 0
                for row in rows
                if row.store == one.store and not row.name and row.segment in bases
            ]
            is_old = one.round < found.number
            if is_old and rounds and min(rounds) > one.round:
                continue
        kept.append(one)
    return kept


def _clears(new: SegmentVerdict, old: SegmentVerdict) -> bool:
    """
    Whether a good verdict is about all that was bad.
    """
    if new.verdict is Verdict.UNKNOWN:
        return False
    if not new.is_sampled or new.segment is None:
        return True
    is_known = bool(old.blocks) and set(old.blocks) <= set(new.read_blocks)
    return old.is_sampled and is_known


def _compare_digests(past: Past, found: VerifyRun) -> None:
    """
    Compares the digests of blocks with those of the last check. A log only grows.
    """
    pairs = [
        (one, past.rows[_key(one)], _shared_blocks(one, past.rows[_key(one)]))
        for one in found.verdicts
        if _key(one) in past.rows
    ]
    # The last block of each store that is as it was, as segment and index.
    equal: dict[str, tuple[int, int]] = {}
    for new, _, blocks in pairs:
        for block, is_equal in blocks.items():
            if is_equal:
                place = (new.segment or 0, block)
                equal[new.store] = max(equal.get(new.store, place), place)
    for new, old, blocks in pairs:
        changed = tuple(block for block, is_equal in blocks.items() if not is_equal)
        if changed:
            place = (new.segment or 0, changed[-1])
            is_behind = equal.get(new.store, place) > place
            _tell_changes(new, old, changed, is_right_behind=is_behind)
        elif blocks and new.verdict is Verdict.SAMPLED:
            text = f"{len(blocks)} blocks are as round {old.round} read them"
            new.evidence.append(text)


def _shared_blocks(new: SegmentVerdict, old: SegmentVerdict) -> dict[int, bool]:
    """
    The blocks that both checks read whole, ascending, and whether they are equal.
    """
    before = dict(zip(old.read_blocks, old.block_digests, strict=False))
    after = dict(zip(new.read_blocks, new.block_digests, strict=False))
    least = min(old.length, new.length)
    return {
        block: before[block] == after[block]
        for block in sorted(before.keys() & after.keys())
        if (block + 1) * BLOCK_BYTES <= least or old.length == new.length
    }


def _tell_changes(
    new: SegmentVerdict,
    old: SegmentVerdict,
    changed: tuple[int, ...],
    *,
    is_right_behind: bool,
) -> None:
    text = f"blocks {', '.join(map(str, changed))} are not what round {old.round} read"
    if new.is_bad:
        new.evidence.append(text)
    elif new.is_sealed or new.replicas:
        new.evidence.append(f"{NOTE}{text}; a seal or a replica confirms what is there")
    elif is_right_behind:
        new.verdict, new.is_bad, new.blocks = Verdict.CORRUPT, True, changed
        # The next round compares with what was right.
        before = dict(zip(old.read_blocks, old.block_digests, strict=False))
        now = zip(new.read_blocks, new.block_digests, strict=True)
        new.block_digests = tuple(
            before[block] if block in changed else digest for block, digest in now
        )
        new.evidence.append(f"{text}, and bytes behind them are: a log only grows")
    else:
        new.evidence.append(f"{NOTE}{text}: the log was cut and grew again, or changed")
