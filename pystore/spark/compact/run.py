"""
Runs a compaction from the plan to the rename, or a survey, which writes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pystore.core.lock import Lock
from pystore.errors import CorruptError, InvalidError
from pystore.fs.atomic import storage_error
from pystore.fs.free_space import require_free
from pystore.spark.compact.checkpoint import (
    CompactionWork,
    begin_work,
    find_work,
    remove_work,
)
from pystore.spark.compact.counts import CompactionDamage
from pystore.spark.compact.layout import QueueLayout, parse_layout
from pystore.spark.compact.output import (
    OUTPUT,
    finish_output,
    manifest_of,
    prepare_output,
)
from pystore.spark.compact.plan import CompactionChoice, CompactionPlan, make_plan
from pystore.spark.plan.paths import store_around

__all__ = ["Compaction", "CompactionJobs", "compact", "survey"]

_LOCK = "lock"


class CompactionJobs(Protocol):
    """
    The parts of a compaction that run as tasks, as in
    `pystore.spark.compact.jobs.SparkJobs`.
    """

    def survey(self, plan: CompactionPlan) -> list[str]:
        """
        Returns the layout of each queue, and writes nothing.
        """
        ...

    def lay_out(self, work: CompactionWork) -> list[str]:
        """
        Plans the place of each record, and returns the layout of each queue.
        """
        ...

    def copy(
        self,
        work: CompactionWork,
        layouts: Iterable[QueueLayout],
        done: Collection[int],
    ) -> None:
        """
        Copies the records of the segments that are not copied yet.
        """


@dataclass(frozen=True, slots=True)
class Compaction:
    """
    The result of a compaction, or of a survey.

    Attributes:
        plan: of the compaction.
        queues: layouts, sorted by topic and queue id.
        is_resumed: whether the run continued the work of an earlier run.
    """

    plan: CompactionPlan
    queues: tuple[QueueLayout, ...]
    is_resumed: bool = False


def survey(jobs: CompactionJobs, store: Path, choice: CompactionChoice) -> Compaction:
    """
    Returns the result that a compaction would have, and writes nothing.

    Raises:
        CorruptError: a record is bad, or queue offsets do not rise with the log.
        PystoreError: the store cannot be read, or a task failed.
    """
    plan = make_plan(store, choice)
    return Compaction(plan, _queues(jobs.survey(plan)))


def compact(
    jobs: CompactionJobs, store: Path, into: Path, choice: CompactionChoice
) -> Compaction:
    """
    Compacts a store into the directory ``compaction`` below *into*, which appears
    when it is complete.

    A killed run leaves unfinished work, and the next run continues it.

    Args:
        jobs: run the tasks.
        store: absolute root of the store, which is not changed.
        into: absolute path, the same on all hosts; the directory is made if missing.
        choice: of the user.

    Raises:
        InvalidError: *into* holds another compaction, or is in a store.
        LockedError: another run compacts into the same directory.
        CorruptError: a record is bad, or queue offsets do not rise with the log.
        FullError: there is not enough space.
        PystoreError: the store cannot be read, or a task failed.
    """
    _check_place(store, into)
    try:
        into.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        # The caller gets the path with it.
        raise storage_error("make", into, error) from error
    lock = Lock(into / _LOCK)
    try:
        return _published(store, into, choice) or _compact(jobs, store, into, choice)
    finally:
        lock.release()


def _compact(
    jobs: CompactionJobs, store: Path, into: Path, choice: CompactionChoice
) -> Compaction:
    work = find_work(into, str(store), choice)
    is_resumed = work is not None
    if work is None:
        work = begin_work(into, make_plan(store, choice))
    layouts = work.layouts()
    if layouts is None:
        layouts = list(_queues(jobs.lay_out(work)))
        work.save_layouts(layouts)
    done = work.copied()
    _check_space(into, layouts, sum(size for _, size in done.values()))
    prepare_output(work, layouts)
    wanted = sum(layout.records for layout in layouts)
    if sum(records for records, _ in done.values()) < wanted:
        jobs.copy(work, layouts, done)
    copied = sum(records for records, _ in work.copied().values())
    if copied != wanted:
        raise CorruptError(
            f"{work.folder}: {copied} records were copied instead of {wanted}: remove "
            "this directory, and run the job again",
            path=str(work.folder),
        )
    finish_output(work, layouts, into)
    return Compaction(work.plan, tuple(layouts), is_resumed)


def _queues(texts: Iterable[str]) -> tuple[QueueLayout, ...]:
    found = [parse_layout(text) for text in texts]
    damages = sorted(
        (one for one in found if isinstance(one, CompactionDamage)),
        key=lambda one: one.offset,
    )
    if damages:
        first, more = damages[0], len(damages) - 1
        also = f" (and {more} more)" if more else ""
        raise CorruptError(
            f"{first.path}: {first.text}{also}: nothing was compacted; "
            "`pystore verify` reports all damage",
            offset=first.offset,
            path=first.path,
        )
    layouts = [one for one in found if isinstance(one, QueueLayout)]
    layouts.sort(key=lambda one: (one.count.topic, one.count.queue_id))
    return tuple(layouts)


def _check_place(store: Path, into: Path) -> None:
    above = store if store in (into, *into.parents) else store_around(into)
    if above is not None:
        raise InvalidError(
            f"{into}: this directory is in the store {above}, and a compaction changes "
            "no store: give a directory outside",
            path=str(into),
        )


def _published(store: Path, into: Path, choice: CompactionChoice) -> Compaction | None:
    found = manifest_of(into)
    if found is None:
        return None
    plan, texts = found
    is_same = (plan.store, plan.choice) == (str(store), choice)
    if not is_same or make_plan(store, choice).end != plan.end:
        raise InvalidError(
            f"{into / OUTPUT} exists, a compaction of {plan.store} up to offset "
            f"{plan.end}: give another directory",
            path=str(into / OUTPUT),
        )
    remove_work(into)  # an earlier run was killed before it removed the work
    return Compaction(plan, _queues(texts), is_resumed=True)


def _check_space(into: Path, layouts: Sequence[QueueLayout], done: int) -> None:
    needed = sum(layout.output_bytes for layout in layouts) - done
    require_free(
        into,
        needed,
        "the compaction",
        "make space, or give a directory on another disk; finished work is kept",
    )
