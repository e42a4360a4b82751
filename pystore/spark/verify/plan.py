"""
Plans the tasks of a verification. Runs on the driver.

Each store is read once: its directory, its bounds, the ends of its queues, its epochs.
Nothing stays open: the tasks and the final check need values only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from pystore.consumequeue.queues import (
    ConsumeQueues,
    found_file_size,
    queue_file_size_of,
)
from pystore.core.live_page import LiveWords
from pystore.core.lock import running_writer
from pystore.core.log_reader import LogReader
from pystore.core.segment_view import open_view
from pystore.epochs.table import EpochTable
from pystore.errors import (
    BusyError,
    CutError,
    NotAStoreError,
    PystoreError,
    StorageError,
)
from pystore.fs.layout import IDENTITY_FILE, require_store
from pystore.recovery.foreign_writer import is_closed
from pystore.recovery.segments import Segments
from pystore.recovery.torn_tail import Bound, Evidence
from pystore.rocketmq.identity_file import parse_identity
from pystore.segments.sampling import sample_blocks
from pystore.spark.plan.store_files import read_epoch_table
from pystore.spark.verify.digests import blocks_of
from pystore.spark.verify.forks import History, find_forks
from pystore.spark.verify.segment_list import SegmentList, list_segments
from pystore.spark.verify.task import SegmentTask, StoreShare
from pystore.spark.verify.verdicts import Finding
from pystore.store.open_reader import binding_page, find_end
from pystore.verify.answers import require_answers
from pystore.verify.bound import (
    find_bound,
    find_dispatched,
    find_evidence,
)
from pystore.verify.report import Damage
from pystore.verify.seals import SealCheck

__all__ = [
    "StorePlan",
    "finding_of",
    "open_parts",
    "plan_store",
    "plan_tasks",
]

_ATTEMPTS = 8


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
        is_at_rest: whether it was closed, and nothing writes it.
        bound: no record below it may be bad.
        generation: of the live page's cuts, to notice a cut; ``None``: no writer.
        share: values that all tasks of the store share.
        sealed: base offsets of segments that have a seal.
        epochs: offsets at which epochs begin.
        table: of the epochs; ``None``: there is none, or it cannot be read.
        findings: about the store's small files.
        lengths: the end of each consume queue, by topic and queue id. If zeros stand
            within a queue, it may end before that.
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
    table: EpochTable | None = None
    readable_end: int = 0
    is_crashed: bool = False
    is_at_rest: bool = False
    findings: list[Finding] = field(default_factory=list)
    lengths: dict[tuple[str, int], int] = field(default_factory=dict)

    @property
    def bases(self) -> list[int]:
        """
        Base offsets of the segments that can be read, ascending.
        """
        return [base for run in self.listing.runs for base in run if base < self.end]

    @property
    def promised_end(self) -> int:
        """
        The end of the log that the store's own files name.
        """
        bound = self.bound
        if isinstance(bound, Bound):
            promised = bound.offset
        else:
            promised = 0 if bound.is_abort else bound.named_end or 0
            promised = max(promised, bound.stored_end)
        return promised if self.generation is None else max(promised, self.end)

    @property
    def history(self) -> History:
        """
        The epochs of the log, also of bytes that are lost here.
        """
        end = max(self.readable_end, self.promised_end)
        return History(str(self.root), self.table, end)


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

    A writer may roll segments, delete old ones and begin epochs meanwhile. So its end
    is read before the segments are listed, and epochs before the end. If the log was
    cut, or files were deleted that were listed, the plan is made again.

    Args:
        root: of the store.
        group: of its replicas; by default the broker set of its identity, else its
            own path.

    Raises:
        StorageError: the system refused.
        CutError: the log was cut meanwhile.
        NotAStoreError: segments were deleted meanwhile.
        BusyError: the store changed in each attempt.
    """
    problem: Exception = BusyError(
        f"{root}: the store changes, but its lock shows no writer: run as a user who "
        "can read the lock, or on the host of the writer",
        path=str(root),
    )
    for _ in range(_ATTEMPTS):
        try:
            plan = _plan_once(root, group or group_of(root) or str(root))
        except (CutError, NotAStoreError, StorageError) as error:
            # Something that was listed may be gone: look again.
            problem = error
            continue
        if plan is not None:
            return plan
    raise problem


def _plan_once(root: Path, group: str) -> StorePlan | None:
    """
    Returns a plan; ``None``: the store changed while it was made.
    """
    require_answers(root)
    require_store(root)
    findings: list[Finding] = []
    page = binding_page(root) if running_writer(root) is not None else None
    generation = None if page is None else page.read().cut_generation
    table = _read_table(root, findings)
    dispatched_end = find_dispatched(root)
    queue_file_size = found_file_size(root)
    words = None if page is None else page.read()
    listing = list_segments(root)
    is_written = words is not None
    if page is None and listing.is_whole:
        page = binding_page(root)
        words = None if page is None else page.read()
    seen = _look(root, group, listing, words, is_written=is_written)
    bound, share = seen.bound, replace(seen.share, dispatched_end=dispatched_end)
    is_crashed = not is_closed(root)
    is_other_writer = is_crashed and not is_written
    if is_other_writer and list_segments(root) != listing:
        return None
    if is_written and page is not None and page.read().cut_generation != generation:
        return None
    if is_written and found_file_size(root) != queue_file_size:
        return None  # the first queue files appeared
    seals = SealCheck(root)
    findings += [Finding("seal", None, one.reason) for one in seals.damages]
    findings += [finding_of(one) for one in seen.damages]
    return StorePlan(
        root=root,
        group=group,
        listing=listing,
        end=seen.end,
        bound=bound,
        generation=generation,
        share=share,
        sealed=seals.bases,
        epochs=_epochs(table, seen.end, findings),
        table=table,
        readable_end=seen.readable_end,
        is_crashed=is_crashed,
        is_at_rest=not is_crashed,
        findings=_unique(findings),
        lengths=seen.lengths,
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """
    The ends of the log and of the queues, and what is wrong with the files of these.
    """

    end: int
    readable_end: int
    bound: Bound | Evidence
    share: StoreShare
    damages: list[Damage]
    lengths: dict[tuple[str, int], int]


def _look(
    root: Path,
    group: str,
    listing: SegmentList,
    words: LiveWords | None,
    *,
    is_written: bool,
) -> _Seen:
    """
    Args:
        root: of the store.
        group: of its replicas.
        listing: of its segments.
        words: of the live page, if it is valid.
        is_written: whether its writer runs here, so that they promise the end.
    """
    damages: list[Damage] = []
    with open_parts(root, listing) as (log, queues, queue_problem):
        segments = Segments(log)
        if is_written and words is not None:
            bound: Bound | Evidence = Bound(words.published_end, "published end")
        elif listing.is_whole:
            bound = find_bound(root, segments, queues, None, damages)
        else:
            bound = find_evidence(root, segments, queues, damages)
        if queue_problem and all(one.reason != queue_problem for one in damages):
            folder = str(queues.folder)
            damages.append(Damage(folder, None, queue_problem, part="queue"))
        lengths = {} if queue_problem else queues.lengths()
        # A writer that makes its first queue has a folder of it before a file.
        is_size_known = not is_written or found_file_size(root) is not None
        share = StoreShare(
            store=str(root),
            group=group,
            has_queues=not queue_problem and len(queues) > 0 and is_size_known,
            queue_file_size=queues.file_size,
            torn_from=bound.offset if isinstance(bound, Bound) else bound.bound,
        )
        if words is None:
            # All bytes are scanned, and `check_store` finds the end.
            readable_end = find_end(segments)[0]
            return _Seen(segments.end, readable_end, bound, share, damages, lengths)
        end = words.published_end
        if not is_written:
            # A stored end counts beside the page's: one may be wrong, and only the
            # bound promises bytes.
            end = min(max(end, share.torn_from), segments.end)
        return _Seen(end, min(end, segments.end), bound, share, damages, lengths)


def finding_of(damage: Damage) -> Finding:
    """
    Returns what ``pystore verify`` found as a finding of the job.
    """
    if damage.part == "queue":
        text = f"{damage.path}: {damage.reason}"
        return Finding("consumeQueue", damage.offset, text)
    if damage.part == "log" and damage.offset is not None:
        size = damage.skipped_bytes
        return Finding("record", damage.offset, damage.reason, size)
    return Finding("store", None, damage.reason)


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
            # The tasks read the entries, and find a slot without one.
            queues.load(lengths, by_bisection=True)
        except StorageError:
            # No answer is no damage.
            raise
        except PystoreError as error:
            # An unreadable queue is a finding; the other queues are not checked.
            problem = str(error)
        yield log, queues, problem


def _unique(findings: Sequence[Finding]) -> list[Finding]:
    """
    The findings without duplicates: two checks may read the same file.
    """
    unique: dict[str, Finding] = {}
    for finding in findings:
        unique.setdefault(finding.text, finding)
    return list(unique.values())


def plan_tasks(
    plans: Sequence[StorePlan],
    percent: int = 100,
    round_number: int = 0,
    past: Mapping[tuple[str, int], Sequence[int]] | None = None,
) -> list[SegmentTask]:
    """
    Returns the tasks, store by store, segments ascending.

    Args:
        plans: of the stores.
        percent: of each segment's blocks that are read.
        round_number: selects the blocks, if not all are read.
        past: blocks to read in any case, by store and base offset. If it is given,
            blocks are digested even if there is nothing to compare them with.
    """
    sample = _Sample(percent, round_number, past)
    ends: dict[str, list[int]] = {}  # where logs and histories end, by group
    for plan in plans:
        ends.setdefault(plan.group, []).append(plan.readable_end)
    for group in ends:
        forks = find_forks(one.history for one in plans if one.group == group)
        ends[group] += (fork.offset for fork in forks.values())
    return [
        _task(plan, base, ends[plan.group], sample)
        for plan in plans
        for base in plan.bases
    ]


class _Sample(NamedTuple):
    """
    Arguments of `plan_tasks`.
    """

    percent: int
    round_number: int
    past: Mapping[tuple[str, int], Sequence[int]] | None


def _task(
    plan: StorePlan, base: int, ends: Sequence[int], sample: _Sample
) -> SegmentTask:
    end = min(base + plan.listing.segment_size, plan.end)
    percent, past = sample.percent, sample.past
    is_compared = len(ends) > 1 or percent < 100 or past is not None
    digest_end = max(base, min(end, plan.readable_end)) if is_compared else base
    blocks = None
    if percent < 100:
        count = blocks_of(digest_end - base)
        chosen = sample_blocks(base, count, percent, sample.round_number)
        known = (past or {}).get((str(plan.root), base), ())
        wanted = {block for block in known if block < count}
        blocks = tuple(sorted(wanted.union(chosen)))
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


def _read_table(root: Path, findings: list[Finding]) -> EpochTable | None:
    try:
        return read_epoch_table(root)
    except StorageError:
        # No answer is no damage.
        raise
    except PystoreError as error:
        # The epoch file and its backup are damaged.
        findings.append(Finding("epoch", None, str(error)))
        return None


def _epochs(
    table: EpochTable | None, end: int, findings: list[Finding]
) -> tuple[int, ...]:
    """
    The offsets at which epochs begin. Problems of the table become findings.
    """
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
