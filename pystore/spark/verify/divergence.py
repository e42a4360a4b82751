"""
Decides whether a copy that differs is damaged or belongs to another history.

Two logs that diverged differ in every later record, since their store times differ.
So a copy that is right again behind the difference is damaged. A copy that stays
different has diverged.
"""

from __future__ import annotations

from collections.abc import Sequence

from pystore.spark.verify.block_diff import (
    PAGE_BYTES,
    BlockTask,
    PageDigests,
    block_range,
    first_difference,
    read_pages,
)
from pystore.spark.verify.check_replicas import Difference
from pystore.spark.verify.executors import RunTasks
from pystore.spark.verify.verdicts import SegmentVerdict, Verdict

__all__ = ["complete_verdicts"]


def complete_verdicts(differences: Sequence[Difference], run: RunTasks) -> None:
    """
    Completes the verdicts of copies that differ.

    Args:
        differences: the copies; their verdicts are changed.
        run: runs the tasks.
    """
    tasks = [task for one in differences for task in _block_tasks(one)]
    digests = {result.task: result for result in _run(run, tasks)}
    places = [_first_page(one, digests) for one in differences]
    pages = [
        task
        for one, place in zip(differences, places, strict=True)
        if place is not None
        for task in _page_tasks(one, place)
    ]
    raw = {result.task: result for result in _run(run, pages)}
    for one, place in zip(differences, places, strict=True):
        _complete(one, place, digests, raw)
    _name_divergence(differences)


def _name_divergence(differences: Sequence[Difference]) -> None:
    """
    A log diverges at one offset. The verdicts on later segments name that offset.
    """
    diverged: dict[str, Difference] = {}
    for one in differences:
        verdict = one.verdict
        if verdict.verdict is not Verdict.DIVERGENT or one.is_tie:
            continue
        first = diverged.setdefault(verdict.store, one).verdict
        if first is not verdict:
            text = f"it belongs to the log that diverged at offset {_where(first)}"
            verdict.evidence = [text]


def _where(verdict: SegmentVerdict) -> int | None:
    if verdict.first_difference is None:
        return verdict.segment
    return verdict.first_difference


def _run(run: RunTasks, tasks: Sequence[BlockTask]) -> list[PageDigests]:
    unique = list(dict.fromkeys(tasks))
    return run(unique, read_pages, lambda task: int(task.end - task.start))


def _block_tasks(one: Difference) -> list[BlockTask]:
    """
    Tasks for the first and the last block that differ, on both sides.
    """
    base = one.verdict.segment
    assert base is not None
    stores = [one.verdict.store, one.reference] if one.reference else []
    return [
        BlockTask(store, base, *block_range(base, index, one.end))
        for index in (one.blocks[0], one.blocks[-1])
        for store in stores
    ]


def _differing(
    one: Difference, index: int, digests: dict[BlockTask, PageDigests]
) -> tuple[list[int], int]:
    """
    The pages of a block that differ, and the number of its pages.
    """
    base = one.verdict.segment
    assert base is not None
    sides = [
        digests.get(BlockTask(store, base, *block_range(base, index, one.end)))
        for store in (one.verdict.store, one.reference)
    ]
    mine, theirs = (side.digests if side is not None else () for side in sides)
    pairs = list(zip(mine, theirs, strict=False))
    return [page for page, (a, b) in enumerate(pairs) if a != b], len(pairs)


def _first_page(one: Difference, digests: dict[BlockTask, PageDigests]) -> int | None:
    """
    The offset of the first page that differs.
    """
    pages, _ = _differing(one, one.blocks[0], digests)
    base = one.verdict.segment
    assert base is not None
    if not pages:
        return None
    return block_range(base, one.blocks[0], one.end)[0] + pages[0] * PAGE_BYTES


def _page_tasks(one: Difference, place: int) -> list[BlockTask]:
    base = one.verdict.segment
    assert base is not None
    end = min(place + PAGE_BYTES, one.end)
    return [
        BlockTask(store, base, place, end, is_raw=True)
        for store in (one.verdict.store, one.reference)
    ]


def _complete(
    one: Difference,
    place: int | None,
    digests: dict[BlockTask, PageDigests],
    raw: dict[BlockTask, PageDigests],
) -> None:
    verdict = one.verdict
    base = verdict.segment
    assert base is not None
    start = block_range(base, one.blocks[0], one.end)[0]
    where = None
    if place is not None:
        mine, theirs = (raw[task].raw for task in _page_tasks(one, place))
        where = place + (first_difference(mine, theirs) or 0)
        verdict.first_difference = where
    if verdict.verdict is Verdict.CORRUPT:
        return  # its own records or its seal already show it
    pages, count = _differing(one, one.blocks[-1], digests)
    is_right_behind = one.agrees_behind or bool(pages and pages[-1] + 1 < count)
    if not one.reference:
        verdict.verdict = Verdict.CORRUPT
        text = (
            f"block {one.blocks[0]}, from offset {start} on, differs from a replica's "
            "seal, and no replica has the right bytes: an operator has to decide"
        )
    elif one.is_tie:
        text = (
            f"from offset {where or start} on it differs from {one.reference}, and "
            "neither a seal nor a majority shows which copy is right: an operator has "
            "to decide"
        )
    elif is_right_behind:
        verdict.verdict = Verdict.CORRUPT
        text = (
            f"at offset {where or start} it differs from {one.reference}, and it is "
            "equal again after that: move the file aside, and take the segment from "
            "there"
        )
    elif where is None:
        text = (
            f"block {one.blocks[0]}, from offset {start} on, differs from "
            f"{one.reference}, which could not be read again: verify again"
        )
    else:
        text = (
            f"from offset {where} on it holds another log than {one.reference}, and "
            "no epochs tell which one is right: keep both, an operator has to decide"
        )
    verdict.evidence.append(text)
