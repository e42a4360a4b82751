"""
From stores to tasks. On the driver.

Each store is looked at once: its directory, its bounds, its queues' ends, its
epochs. Nothing that was opened stays open, since what tasks and judging need later
are values.
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
from pystore.epochs.file import read_epochs
from pystore.errors import PystoreError
from pystore.fs.layout import ABORT, EPOCH_FILE, EPOCH_FILE_BACKUP, IDENTITY_FILE
from pystore.recovery.segments import Segments
from pystore.recovery.torn_tail import Bound, Evidence
from pystore.rocketmq.identity_file import parse_identity
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
    One store, as it was when the work was planned.

    Attributes:
        root: of the store.
        group: whose replicas are compared with each other.
        listing: what ``commitlog/`` holds.
        end: of the log, as far as it is known before a scan.
        readable_end: where it ends by its structure alone: up to there it is
            compared with replicas.
        is_crashed: nobody closed it, so that its end may be torn.
        bound: below which nothing may be bad.
        generation: of the live page, to notice a cut; ``None``: no writer.
        share: what all its tasks need.
        sealed: base offsets that have a seal.
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
    Returns the broker set that a store belongs to, or an empty text: not known.
    """
    try:
        identity = parse_identity(
            (root / IDENTITY_FILE).read_bytes(), str(root / IDENTITY_FILE)
        )
    except (OSError, PystoreError):
        # Without a controller there is none; a damaged one is found elsewhere.
        return ""
    return f"{identity.cluster}/{identity.broker}"


def plan_store(root: Path, group: str = "") -> StorePlan:
    """
    Looks at a store.

    Args:
        root: of the store.
        group: of its replicas; by default that of its identity, else its own path.

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
        # Without a page whatever is there is scanned; the judgement finds the end.
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
        findings=_once(findings),
    )


@contextmanager
def open_parts(
    root: Path,
    listing: SegmentList,
    lengths: Mapping[tuple[str, int], int] | None = None,
) -> Iterator[tuple[LogReader, ConsumeQueues, str]]:
    """
    Yields the log behind the last hole, the consume queues, and why those cannot be
    read (empty: they can).

    Args:
        root: of the store.
        listing: of its segments.
        lengths: where each queue ends, if it is known.
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
            # A queue that cannot be read is a finding; the rest is not looked at.
            problem = str(error)
        yield log, queues, problem


def _once(findings: Sequence[Finding]) -> list[Finding]:
    """
    Nothing told twice, though two looked at one file.
    """
    return list({finding.text: finding for finding in findings}.values())


def plan_tasks(
    plans: Sequence[StorePlan], percent: int = 100, round_number: int = 0
) -> list[SegmentTask]:
    """
    Returns the work, store by store, segments ascending.

    Args:
        plans: of the stores.
        percent: how much of each segment to read; below 100, blocks are compared
            and records are checked in the first block only.
        round_number: which blocks, if not all.
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
    Where epochs begin; what is wrong with the table becomes a finding.
    """
    texts: list[bytes | None] = []
    for name in (EPOCH_FILE, EPOCH_FILE_BACKUP):
        try:
            texts.append((root / name).read_bytes())
        except FileNotFoundError:
            # A store without a controller has none.
            texts.append(None)
    try:
        found = read_epochs(texts[0], texts[1], str(root / EPOCH_FILE))
    except PystoreError as error:
        # A small file that does not prove itself.
        findings.append(Finding("epoch", None, str(error)))
        return ()
    if found is None:
        return ()
    starts = []
    for entry in found.table.entries:
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

    There are ``min(blocks, 2 + k)`` of them, where k is *percent* of the blocks
    between the first and the last one, rounded up.

    Args:
        segment: base offset.
        blocks: how many the segment has.
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
