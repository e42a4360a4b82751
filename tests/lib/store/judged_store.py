"""
A store checked as in the verify job, without replicas.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pystore.spark.verify.judge_store import StoreFindings, judge_store
from pystore.spark.verify.plan import plan_store, plan_tasks
from pystore.spark.verify.task import SegmentCheck, check_segment

__all__ = ["judged", "places"]


def judged(
    root: Path,
    change: Callable[[dict[int, SegmentCheck]], object] = lambda _: None,
    percent: int = 100,
) -> StoreFindings:
    """
    The findings of a store, checked segment by segment.

    Args:
        root: of the store.
        change: changes the checks before the findings.
        percent: of the blocks.
    """
    plan = plan_store(root)
    checks = {one.base: check_segment(one) for one in plan_tasks([plan], percent)}
    change(checks)
    return judge_store(plan, checks, is_whole=percent == 100)


def places(found: StoreFindings) -> list[tuple[str, int | None]]:
    """
    Kind and offset of every finding.
    """
    in_log = [
        one for base in sorted(found.by_segment) for one in found.by_segment[base]
    ]
    return [(one.kind, one.offset) for one in [*in_log, *found.of_store]]
