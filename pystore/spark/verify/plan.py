"""
Plans the tasks of a verification. Runs on the driver.

Each store is read once: its directory, its bounds, the ends of its queues, its epochs.
Nothing stays open: the tasks and the final check need values only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import xxhash

from pystore.bindings.ffi import NO_OFFSET
from pystore.consumequeue.queues import ConsumeQueues, queue_file_size_of
from pystore.core.log_reader import LogReader
from pystore.errors import PystoreError
from pystore.fs.layout import ABORT, IDENTITY_FILE
from pystore.recovery.segments import Segments
from pystore.recovery.torn_tail import Bound, Evidence
from pystore.rocketmq.identity_file import parse_identity
from pystore.spark.plan.store_files import read_epoch_table
from pystore.spark.verify.digests import blocks_of
from pystore.spark.verify.segment_list import SegmentList, list_segments
from pystore.spark.verify.segment_view import open_view
from pystore.spark.verify.task import SegmentTask, StoreShare
from pystore.spark.verify.verdicts import Finding
from pystore.store.open_reader import binding_page, find_end
from pystore.verify.bound import find_bound, find_evidence
from pystore.verify.report import Damage
from pystore.verify.seals import SealCheck

__all__ = [
    "StorePlan",
    "open_parts",
    "plan_store",
    "plan_tasks",
    "sample_blocks",
]


@dataclass(frozen=True, slots=True)
class StorePlan:
    """
    One store, as it was when the tasks were planned.

    Attributes:
        root: of the store.
        group: stores of one group are compared with each other.
        listing: the content of ``commitlog/``.
        end: of the log, as known before the scan.
        readable_end: end of the log by its structure alone. The log is compared with
            replicas up to here.
        is_crashed: whether the store was not closed, so that its end may be torn.
        bound: no record below it may be bad.
        generation: of the live page's cuts, to notice a cut; ``None``: no writer.
        share: values that all tasks of the store share.
        sealed: base offsets of segments that have a seal.
        epochs: offsets at which epochs begin.
        findings: about the store's small files.
    """

    root: Path
    group: str
    listing: SegmentList
    end: int
    bound: Bound | Evidence
    generation: int | None
    share: StoreShare
    sealed: frozenset[int] = frozenset()
    epochs: tuple[int, ...] = ()
    readable_end: int = 0
    is_crashed: bool = False
    findings: list[Finding] = field(default_factory=list)

    @property
    def bases(self) -> list[int]:
        """
        Base offsets of the segments that can be read, ascending.
        """
        return [base for run in self.listing.runs for base in run if base < self.end]


def group_of(root: Path) -> str:
    """
    Returns the broker set that a store belongs to; empty: it is not known.
    """
    try:
        identity = parse_identity(
            (root / IDENTITY_FILE).read_bytes(), str(root / IDENTITY_FILE)
        )
    except (OSError, PystoreError):
        # A store without a controller has no identity file. A damaged one is a
        # finding of another check.
        return ""
    return f"{identity.cluster}/{identity.broker}"


def plan_store(root: Path, group: str = "") -> StorePlan:
    """
    Plans the check of a store.

    Args:
        root: of the store.
        group: of its replicas; by default the broker set of its identity, else its
            own path.

    Raises:
        StorageError: the system refused.
        CutError: the log was cut meanwhile.
    """
    listing = list_segments(root)
    group = group or group_of(root) or str(root)
    damages: list[Damage] = []
    with open_parts(root, listing) as (log, queues, queue_problem):
        page = binding_page(root) if listing.is_whole else None
        if queue_problem:
            damages.append(Damage(str(queues.folder), None, queue_problem))
        segments = Segments(log)
        if listing.is_whole:
            bound = find_bound(root, segments, queues, page, damages)
        else:
            bound = find_evidence(root, segments, queues, damages)
        stale_above = bound.stale_above if isinstance(bound, Evidence) else None
        share = StoreShare(
            store=str(root),
            group=group,
            stale_above=NO_OFFSET if stale_above is None else stale_above,
            lengths={} if queue_problem else queues.lengths(),
            queue_file_size=queues.file_size,
        )
        # Without a page all bytes are scanned, and `check_store` finds the end.
        end, generation = segments.end, None
        readable_end = find_end(segments)[0] if page is None else 0
        if page is not None:
            words = page.read()
            end, generation = words.published_end, words.cut_generation
            readable_end = min(end, segments.end)
    seals = SealCheck(root)
    findings = [Finding("store", None, one.reason) for one in damages]
    findings += [Finding("seal", None, one.reason) for one in seals.damages]
    epochs = _epochs(root, end, findings)
    return StorePlan(
        root=root,
        group=group,
        listing=listing,
        end=end,
        bound=bound,
        generation=generation,
        share=share,
        sealed=seals.bases,
        epochs=epochs,
        readable_end=readable_end,
        is_crashed=(root / ABORT).exists(),
        findings=_unique(findings),
    )


@contextmanager
def open_parts(
    root: Path,
    listing: SegmentList,
    lengths: Mapping[tuple[str, int], int] | None = None,
) -> Iterator[tuple[LogReader, ConsumeQueues, str]]:
    """
    Opens the log behind the last missing segment, and the consume queues.

    Yields them with the reason why the queues cannot be read; empty: they can.

    Args:
        root: of the store.
        listing: of its segments.
        lengths: the end of each queue, if it is known.
    """
    problem = ""
    runs = listing.runs
    with (
        ConsumeQueues(root, queue_file_size_of(root)) as queues,
        open_view(root, runs[-1] if runs else ()) as log,
    ):
        try:
            queues.load(lengths)
        except PystoreError as error:
            # An unreadable queue is a finding; the other queues are not checked.
            problem = str(error)
        yield log, queues, problem


def _unique(findings: Sequence[Finding]) -> list[Finding]:
    """
    The findings without duplicates: two checks may read the same file.
    """
    return list({finding.text: finding for finding in findings}.values())


def plan_tasks(
    plans: Sequence[StorePlan], percent: int = 100, round_number: int = 0
) -> list[SegmentTask]:
    """
    Returns the tasks, store by store, segments ascending.

    Args:
        plans: of the stores.
        percent: of each segment's blocks that are read; below 100, records are checked
            in the first block only.
        round_number: selects the blocks, if not all are read.
    """
    ends: dict[str, list[int]] = {}
    for plan in plans:
        ends.setdefault(plan.group, []).append(plan.readable_end)
    return [
        _task(plan, base, ends[plan.group], percent, round_number)
        for plan in plans
        for base in plan.bases
    ]


def _task(
    plan: StorePlan, base: int, ends: Sequence[int], percent: int, round_number: int
) -> SegmentTask:
    end = min(base + plan.listing.segment_size, plan.end)
    is_compared = len(ends) > 1 or percent < 100
    digest_end = max(base, min(end, plan.readable_end)) if is_compared else base
    blocks = None
    if percent < 100:
        count = blocks_of(digest_end - base)
        blocks = sample_blocks(base, count, percent, round_number)
    return SegmentTask(
        share=plan.share,
        base=base,
        end=end,
        digest_end=digest_end,
        blocks=blocks,
        has_seal=base in plan.sealed,
        epochs=tuple(one for one in plan.epochs if base <= one < end),
        stops=tuple(sorted({one for one in ends if base < one < digest_end})),
    )


def _epochs(root: Path, end: int, findings: list[Finding]) -> tuple[int, ...]:
    """
    The offsets at which epochs begin. Problems of the table become findings.
    """
    try:
        table = read_epoch_table(root)
    except PystoreError as error:
        # The epoch file and its backup are damaged.
        findings.append(Finding("epoch", None, str(error)))
        return ()
    if table is None:
        return ()
    starts = []
    for entry in table.entries:
        if entry.start_offset > end:
            text = f"epoch {entry.epoch} begins at {entry.start_offset}, above the end"
            findings.append(Finding("epoch", entry.start_offset, f"{text} {end}"))
        else:
            starts.append(entry.start_offset)
    return tuple(starts)


def sample_blocks(
    segment: int, blocks: int, percent: int, round_number: int
) -> tuple[int, ...]:
    """
    Returns the indexes of the blocks to read, ascending.

    These are the first block, the last one and *percent* of the blocks between them,
    rounded up.

    Args:
        segment: base offset.
        blocks: number of the segment's blocks.
        percent: 0 to 100.
        round_number: from 0 on.
    """
    inner = max(0, blocks - 2)
    strata = -(-inner * percent // 100)
    chosen = {0, blocks - 1} if blocks else set()
    for stratum in range(strata):
        start = inner * stratum // strata
        size = inner * (stratum + 1) // strata - start
        at = xxhash.xxh3_64_intdigest(f"{segment}/{stratum}".encode()) + round_number
        chosen.add(1 + start + at % size)
    return tuple(sorted(chosen))
