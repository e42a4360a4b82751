"""
The verify job: plan on the driver, check on executors, give verdicts on the driver.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pystore.core.live_page import LivePage
from pystore.errors import InvalidError, StorageError
from pystore.fs.layout import LIVE_NAME, META_NAME
from pystore.spark.plan.paths import find_stores
from pystore.spark.verify.check_replicas import check_replicas
from pystore.spark.verify.check_store import StoreFindings, check_store
from pystore.spark.verify.divergence import complete_verdicts
from pystore.spark.verify.executors import RunTasks
from pystore.spark.verify.plan import StorePlan, plan_store, plan_tasks
from pystore.spark.verify.segment_list import list_segments
from pystore.spark.verify.task import SegmentCheck, SegmentTask, check_segment
from pystore.spark.verify.verdicts import SegmentVerdict, Verdict

__all__ = ["REPLICAS", "VerifyRun", "verify_stores"]

REPLICAS = ("auto", "all", "none")

Choose = Callable[[Sequence[SegmentTask]], Sequence[SegmentTask]]


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
    """

    number: int
    verdicts: list[SegmentVerdict]
    stores: list[str]
    seconds: float
    began: float


def verify_stores(
    run: RunTasks,
    paths: Iterable[str],
    *,
    replicas: str = "auto",
    percent: int = 100,
    number: int = 0,
    choose: Choose | None = None,
) -> VerifyRun:
    """
    Checks stores and returns a verdict for each segment.

    Args:
        run: runs the tasks: `pystore.spark.verify.executors.on_spark`.
        paths: of stores: roots, globs, ``file:`` URLs.
        replicas: which stores are compared with each other: those whose identity
            names the same broker set (``auto``), ``all``, or ``none``.
        percent: of the blocks of each segment that are read; below 100, records are
            checked in the first block only.
        number: of the round; each round reads other blocks.
        choose: takes all tasks, and returns those that this round runs.

    Raises:
        InvalidError: an argument is invalid.
        NotAStoreError: a path names no store.
        StorageError: the driver cannot read a store.
        UnavailableError: Spark failed.
    """
    if replicas not in REPLICAS:
        raise InvalidError(f"replicas {replicas!r}: use one of {', '.join(REPLICAS)}")
    if not 0 <= percent <= 100:
        raise InvalidError(f"percent {percent}: use a number from 0 to 100")
    began, clock = time.time(), time.monotonic()
    roots = find_stores(paths)
    plans = [plan_store(root, _group(root, replicas)) for root in roots]
    tasks: Sequence[SegmentTask] = plan_tasks(plans, percent, number)
    if choose is not None:
        tasks = choose(tasks)
    checks = run(tasks, check_segment, lambda task: int(task.size))
    verdicts = _verdicts(run, plans, checks, is_whole=percent == 100)
    seconds = time.monotonic() - clock
    return VerifyRun(number, verdicts, [str(root) for root in roots], seconds, began)


def _group(root: Path, replicas: str) -> str:
    return {"auto": "", "all": "replicas", "none": str(root)}[replicas]


def _verdicts(
    run: RunTasks,
    plans: Sequence[StorePlan],
    checks: Iterable[SegmentCheck],
    *,
    is_whole: bool,
) -> list[SegmentVerdict]:
    by_store: dict[str, dict[int, SegmentCheck]] = defaultdict(dict)
    for check in checks:
        by_store[check.store][check.base] = check
    groups: dict[str, list[StoreFindings]] = defaultdict(list)
    for plan in plans:
        found = check_store(plan, by_store[str(plan.root)], is_whole=is_whole)
        groups[plan.group].append(found)
    verdicts: list[SegmentVerdict] = []
    for members in groups.values():
        of_group, differences = check_replicas(members)
        complete_verdicts(differences, run)
        verdicts += of_group
    for plan in plans:
        _discount_changes(plan, [v for v in verdicts if v.store == str(plan.root)])
    return verdicts


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
            if v.verdict is Verdict.UNKNOWN and (v.segment or 0) < least:
                v.verdict = Verdict.ABSENT
                v.evidence = ["the segment was deleted by retention while the job ran"]
    if plan.generation is None:
        return
    with LivePage(plan.root / META_NAME / LIVE_NAME) as page:
        if page.read().cut_generation == plan.generation:
            return
    for v in verdicts:
        if v.is_bad:
            v.verdict, v.is_bad = Verdict.UNKNOWN, False
            v.evidence.append("the log was cut while the job ran: verify again")
