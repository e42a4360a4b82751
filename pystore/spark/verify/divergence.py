"""
Damage or another history? The copies that differ, looked at closely.

Two logs that went apart never meet again: store times differ from there on. So a
copy that is right again behind the difference is damaged, and one that is not has
diverged.
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
        differences: whose verdicts are changed.
        run: runs a function over tasks, given their size in bytes.
    """
    asked = [task for one in differences for task in _questions(one)]
    answers = {answer.task: answer for answer in _run(run, asked)}
    places = [_place(one, answers) for one in differences]
    pages = [
        task
        for one, place in zip(differences, places, strict=True)
        if place is not None
        for task in _pages(one, place)
    ]
    raw = {answer.task: answer for answer in _run(run, pages)}
    for one, place in zip(differences, places, strict=True):
        _complete(one, place, answers, raw)
    _join(differences)


def _join(differences: Sequence[Difference]) -> None:
    """
    A log parts once: what lies behind that place is told by it.
    """
    parted: dict[str, Difference] = {}
    for one in differences:
        verdict = one.verdict
        if verdict.verdict is not Verdict.DIVERGENT or one.is_tie:
            continue
        first = parted.setdefault(verdict.store, one).verdict
        if first is not verdict:
            text = f"it belongs to the log that parted at offset {_where(first)}"
            verdict.evidence = [text]


def _where(verdict: SegmentVerdict) -> int | None:
    if verdict.first_difference is None:
        return verdict.segment
    return verdict.first_difference


def _run(run: RunTasks, tasks: Sequence[BlockTask]) -> list[PageDigests]:
    unique = list(dict.fromkeys(tasks))
    return run(unique, read_pages, lambda task: int(task.end - task.start))


def _questions(one: Difference) -> list[BlockTask]:
    """
    The first and the last block that differ, of both sides.
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
    one: Difference, index: int, answers: dict[BlockTask, PageDigests]
) -> tuple[list[int], int]:
    """
    The pages of a block that differ, and how many it has.
    """
    base = one.verdict.segment
    assert base is not None
    sides = [
        answers.get(BlockTask(store, base, *block_range(base, index, one.end)))
        for store in (one.verdict.store, one.reference)
    ]
    mine, theirs = (side.digests if side is not None else () for side in sides)
    pairs = list(zip(mine, theirs, strict=False))
    return [page for page, (a, b) in enumerate(pairs) if a != b], len(pairs)


def _place(one: Difference, answers: dict[BlockTask, PageDigests]) -> int | None:
    """
    Where the first page that differs begins.
    """
    pages, _ = _differing(one, one.blocks[0], answers)
    base = one.verdict.segment
    assert base is not None
    if not pages:
        return None
    return block_range(base, one.blocks[0], one.end)[0] + pages[0] * PAGE_BYTES


def _pages(one: Difference, place: int) -> list[BlockTask]:
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
    answers: dict[BlockTask, PageDigests],
    raw: dict[BlockTask, PageDigests],
) -> None:
    verdict = one.verdict
    base = verdict.segment
    assert base is not None
    start = block_range(base, one.blocks[0], one.end)[0]
    where = None
    if place is not None:
        mine, theirs = (raw[task].raw for task in _pages(one, place))
        where = place + (first_difference(mine, theirs) or 0)
        verdict.first_difference = where
    if verdict.verdict is Verdict.CORRUPT:
        return  # its own records or its seal say so already
    pages, count = _differing(one, one.blocks[-1], answers)
    is_right_behind = one.agrees_behind or bool(pages and pages[-1] + 1 < count)
    if not one.reference:
        verdict.verdict = Verdict.CORRUPT
        text = (
            f"block {one.blocks[0]}, from offset {start} on, is not what a replica's "
            "seal says, and no replica has it: a person has to look"
        )
    elif one.is_tie:
        text = (
            f"from offset {where or start} on it differs from {one.reference}, and "
            "neither a seal nor a majority says which copy is right: a person has to"
        )
    elif is_right_behind:
        verdict.verdict = Verdict.CORRUPT
        text = (
            f"at offset {where or start} it differs from {one.reference}, and is equal "
            "again behind: take the segment from there"
        )
    elif where is None:
        text = (
            f"block {one.blocks[0]}, from offset {start} on, differs from "
            f"{one.reference}, which could not be read again: verify again"
        )
    else:
        text = (
            f"from offset {where} on it holds another log than {one.reference}: cut "
            "it there, and take the rest from a replica"
        )
    verdict.evidence.append(text)
