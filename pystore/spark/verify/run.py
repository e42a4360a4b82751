"""
The verify job: plan on the driver, check on executors, give verdicts on the driver.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pystore.core.live_page import LivePage
from pystore.errors import (
    InvalidError,
    NotAStoreError,
    PystoreError,
    StorageError,
)
from pystore.fs.layout import LIVE_NAME, META_NAME, is_store
from pystore.spark.plan.paths import find_roots
from pystore.spark.verify.check_replicas import check_replicas
from pystore.spark.verify.check_store import StoreFindings, check_store
from pystore.spark.verify.divergence import complete_verdicts
from pystore.spark.verify.executors import RunTasks
from pystore.spark.verify.plan import StorePlan, plan_store, plan_tasks
from pystore.spark.verify.queue_columns import SegmentQueues, StoreQueues
from pystore.spark.verify.segment_list import list_segments
from pystore.spark.verify.task import SegmentCheck, SegmentTask, check_segment
from pystore.spark.verify.verdicts import SegmentVerdict, Verdict

__all__ = ["REPLICAS", "VerifyRun", "verify_stores"]

REPLICAS = ("auto", "all", "none")

_WAVE_ROWS = 1 << 21
"""Rows of queues that tasks return at once: 41 bytes each."""

_WAVE_BYTES = 64 << 30
"""That tasks read before their results are noted."""

Choose = Callable[[Sequence[SegmentTask]], Sequence[SegmentTask]]
Note = Callable[[Sequence[SegmentCheck], int], None]


@dataclass(frozen=True, slots=True)
class VerifyRun:
    """
    What one run of the job found.

    Attributes:
        number: of the round.
        verdicts: one for each segment of each store.
        stores: roots, in the order of the arguments.
        seconds: that the run took.
        began: the time of its start, in seconds since 1970.
        bases: base offsets of the segments of each store that was looked at.
        missing: roots that were named and are no store.
        paths: the arguments.
    """

    number: int
    verdicts: list[SegmentVerdict]
    stores: list[str]
    seconds: float
    began: float
    bases: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ()


def verify_stores(
    run: RunTasks,
    paths: Iterable[str],
    *,
    replicas: str = "auto",
    percent: int = 100,
    number: int = 0,
    choose: Choose | None = None,
    past: Mapping[tuple[str, int], Sequence[int]] | None = None,
    note: Note | None = None,
) -> VerifyRun:
    """
    Checks stores and returns a verdict for each segment.

    Args:
        run: runs the tasks: `pystore.spark.verify.executors.on_spark`.
        paths: of stores: roots, globs, ``file:`` URLs.
        replicas: which stores are compared with each other: those whose identity
            names the same broker set (``auto``), ``all``, or ``none``.
        percent: of the blocks of each segment that are read.
        number: of the round; each round reads other blocks.
        choose: takes all tasks, and returns those that this round runs.
        past: blocks to read whatever the sample is, by store and base offset. If it is
            given, blocks are digested even if there is nothing to compare them with.
        note: called with the results of tasks that ended, and the number of those that
            are left.

    Raises:
        InvalidError: an argument is invalid.
        NotAStoreError: no path names a store.
        UnavailableError: Spark failed.
    """
    if replicas not in REPLICAS:
        raise InvalidError(f"replicas {replicas!r}: use one of {', '.join(REPLICAS)}")
    if not 0 <= percent <= 100:
        raise InvalidError(f"percent {percent}: use a number from 0 to 100")
    began, clock = time.time(), time.monotonic()
    paths = list(paths)
    roots = find_roots(paths)
    plans, verdicts, missing = [], [], set[str]()
    for root in roots:
        group = _group(root, replicas)
        try:
            plans.append(plan_store(root, group))
        except (PystoreError, OSError) as error:
            # No answer: the other stores are checked nevertheless.
            verdicts.append(_unknown(root, group or str(root), error))
            if isinstance(error, NotAStoreError) and not is_store(root):
                missing.add(str(root))
    tasks: Sequence[SegmentTask] = plan_tasks(plans, percent, number, past)
    if choose is not None:
        tasks = choose(tasks)
    verdicts += _verdicts(run, plans, tasks, note, is_whole=percent == 100)
    seconds = time.monotonic() - clock
    bases = {str(plan.root): plan.listing.bases for plan in plans}
    names = [str(root) for root in roots]
    return VerifyRun(
        number, verdicts, names, seconds, began, bases, frozenset(missing), tuple(paths)
    )


def _group(root: Path, replicas: str) -> str:
    return {"auto": "", "all": "replicas", "none": str(root)}[replicas]


def _unknown(root: Path, group: str, error: Exception) -> SegmentVerdict:
    text = f"the store could not be checked: {' '.join(str(error).split())}"
    return SegmentVerdict(group, str(root), None, Verdict.UNKNOWN, evidence=[text])


def _verdicts(
    run: RunTasks,
    plans: Sequence[StorePlan],
    tasks: Sequence[SegmentTask],
    note: Note | None,
    *,
    is_whole: bool,
) -> list[SegmentVerdict]:
    checks: dict[str, dict[int, SegmentCheck]] = defaultdict(dict)
    queues: dict[str, StoreQueues] = defaultdict(StoreQueues)
    left = len(tasks)
    for wave in _waves(plans, tasks):
        done = run(wave, check_segment, lambda task: int(task.size))
        left -= len(done)
        if note is not None:
            note(done, left)
        for check in done:
            checks[check.store][check.base] = check
            queues[check.store].add(check.queues)
            check.queues = SegmentQueues()  # they are joined: make room
    groups: dict[str, list[StoreFindings]] = defaultdict(list)
    for plan in plans:
        store = str(plan.root)
        found = check_store(plan, checks[store], queues[store], is_whole=is_whole)
        del queues[store]
        groups[plan.group].append(found)
    verdicts: list[SegmentVerdict] = []
    for members in groups.values():
        of_group, differences = check_replicas(members)
        complete_verdicts(differences, run)
        verdicts += of_group
    for plan in plans:
        _discount_changes(plan, [v for v in verdicts if v.store == str(plan.root)])
    return verdicts


def _waves(
    plans: Sequence[StorePlan], tasks: Sequence[SegmentTask]
) -> Iterator[list[SegmentTask]]:
    """
    The tasks in parts whose results fit into the driver. The segments of a store
    ascend, so that their queues can be joined.
    """
    rows = {str(plan.root): len(plan.lengths) for plan in plans}
    wave: list[SegmentTask] = []
    size = read = 0
    for task in sorted(tasks, key=lambda one: (one.share.store, one.base)):
        if wave and (size > _WAVE_ROWS or read > _WAVE_BYTES):
            yield wave
            wave, size, read = [], 0, 0
        wave.append(task)
        read += task.size
        size += rows[task.share.store]
    if wave:
        yield wave


def _discount_changes(plan: StorePlan, verdicts: Sequence[SegmentVerdict]) -> None:
    """
    Changes of a live store while it was checked are no damage.
    """
    if any(v.verdict is Verdict.UNKNOWN for v in verdicts):
        try:
            least = min(list_segments(plan.root).bases, default=0)
        except StorageError:
            # The whole store was removed; retention does not do that.
            return
        for v in verdicts:
            if v.segment is None:
                continue
            if v.verdict is Verdict.UNKNOWN and v.segment < least:
                v.verdict = Verdict.ABSENT
                v.evidence = ["the segment was deleted by retention while the job ran"]
    if plan.generation is None:
        return
    try:
        with LivePage(plan.root / META_NAME / LIVE_NAME) as page:
            if page.read().cut_generation == plan.generation:
                return
    except PystoreError:
        # The whole store was removed.
        return
    for v in verdicts:
        if v.is_bad:
            v.verdict, v.is_bad = Verdict.UNKNOWN, False
            v.evidence.append("the log was cut while the job ran: verify again")
