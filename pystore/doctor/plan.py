"""
What heals a damaged store, in the order of loss.

Queues are built again from the log and seals from their segments; bytes of the log come
from a replica. What no replica has is replaced by filler records in a store of no set,
and else cut off, with everything behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pystore.doctor.filler_source import FillerSource, may_fill
from pystore.doctor.source import Source, Target
from pystore.fs.layout import CHECKPOINT, CONSUME_QUEUE, LIVE_NAME, META_NAME
from pystore.verify.report import Damage, Heal, StoreReport

__all__ = ["HealingPlan", "Refusal", "Step", "live_path", "make_plan"]

_ORDER: tuple[Heal, ...] = (
    "rebuild",
    "seal again",
    "replica",
    "filler",
    "cut",
    "by hand",
)


@dataclass(frozen=True, slots=True)
class Step:
    """
    One step of a plan.

    Attributes:
        heal: what is done.
        path: the file or directory that is replaced; of the store for a cut.
        damages: what it heals.
        offset: the start of the range of the log, or of the cut.
        end: of that range.
        source: the replica that has the bytes.
        lost_bytes: the bytes of the log that are given up.
    """

    heal: Heal
    path: Path
    damages: tuple[Damage, ...]
    offset: int | None = None
    end: int | None = None
    source: Path | None = None
    lost_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """
    Why a replica cannot give a range.
    """

    source: Path
    offset: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class HealingPlan:
    """
    The steps in the order of loss, and the replicas that could not help.
    """

    steps: tuple[Step, ...]
    refusals: tuple[Refusal, ...] = ()

    @property
    def lost_bytes(self) -> int:
        """
        The bytes of the log that are given up.
        """
        return sum(step.lost_bytes for step in self.steps)


def make_plan(
    root: Path, report: StoreReport, replicas: Sequence[Path] = ()
) -> HealingPlan:
    """
    Returns what heals a store.

    Args:
        root: of the store.
        report: its verification.
        replicas: roots of stores that may have the damaged bytes.

    Raises:
        PystoreError: a replica is no store, or cannot be read.
    """
    steps = [
        *_folders(root, [one for one in report.damages if one.part == "queue"]),
        *(
            Step("seal again", Path(one.path), (one,))
            for one in report.damages
            if one.part == "seal"
        ),
        *(
            Step(_heal_of_file(root, one), Path(one.path), (one,))
            for one in report.damages
            if one.part == "file" or (one.part == "log" and one.end is None)
        ),
    ]
    steps += [Step("by hand", Path(one.path), (one,)) for one in report.unknown]
    ranges = _ranges([one for one in report.damages if one.part == "log"])
    found, refusals = _from_replicas(root, ranges, replicas)
    steps += found.values()
    left = [one for one in ranges if one[0] not in found]
    # Without the file of a segment no opening cuts.
    ill = [one for one in left if any(damage.is_ill for damage in one[2])]
    steps += [
        Step("by hand", Path(damages[0].path), damages, start, end)
        for start, end, damages in ill
    ]
    left = [one for one in left if one not in ill]
    filled = _fill(root, left)
    steps += (step for parts in filled.values() for step in parts)
    steps += _cut(root, report, [one for one in left if one[0] not in filled])
    steps.sort(key=lambda step: _ORDER.index(step.heal))
    return HealingPlan(tuple(steps), tuple(refusals))


def _heal_of_file(root: Path, damage: Damage) -> Heal:
    """
    An opening writes ``checkpoint`` and the live page again; what they say about synced
    records is in the metadata, too.
    """
    is_rewritten = Path(damage.path) in (root / CHECKPOINT, live_path(root))
    return "rebuild" if is_rewritten else "by hand"


def live_path(root: Path) -> Path:
    """
    Returns the path of the live page of a store.
    """
    return root / META_NAME / LIVE_NAME


_Range = tuple[int, int, tuple[Damage, ...]]


def _ranges(damages: list[Damage]) -> list[_Range]:
    """
    The damaged ranges of the log; those that overlap are one.
    """
    ranges: list[_Range] = []
    known = [one for one in damages if one.end is not None and one.offset is not None]
    for one in sorted(known, key=lambda one: one.offset or 0):
        start, end = one.offset or 0, one.end or 0
        if ranges and start < ranges[-1][1]:
            before = ranges.pop()
            start, end = before[0], max(end, before[1])
            ranges.append((start, end, (*before[2], one)))
        else:
            ranges.append((start, end, (one,)))
    return ranges


def _folders(root: Path, damages: list[Damage]) -> list[Step]:
    """
    One step for each queue; one for all, if they have one damage in common.
    """
    top = root / CONSUME_QUEUE
    folders: dict[Path, list[Damage]] = {}
    for one in damages:
        path = Path(one.path)
        parts = path.relative_to(top).parts if path.is_relative_to(top) else ()
        folder = top.joinpath(*parts[:2]) if len(parts) >= 2 else top
        folders.setdefault(folder, []).append(one)
    if top in folders:
        return [Step("rebuild", top, tuple(damages))]
    return [Step("rebuild", path, tuple(found)) for path, found in folders.items()]


def _from_replicas(
    root: Path, ranges: list[_Range], replicas: Sequence[Path]
) -> tuple[dict[int, Step], list[Refusal]]:
    """
    The steps by the start of their range, and why replicas cannot give the others.
    """
    steps: dict[int, Step] = {}
    refusals: list[Refusal] = []
    if not ranges or not replicas:
        return steps, refusals
    with Target(root, [one[:2] for one in ranges]) as target:
        for replica in replicas:
            with Source(replica) as source:
                for start, end, damages in ranges:
                    if start in steps:
                        continue
                    reason = source.refusal(target, start, end)
                    if reason:
                        refusals.append(Refusal(replica, start, end, reason))
                        continue
                    path = Path(damages[0].path)
                    low = source.start_of(target, start)
                    steps[start] = Step("replica", path, damages, low, end, replica)
    return steps, [one for one in refusals if one.offset not in steps]


def _fill(root: Path, left: list[_Range]) -> dict[int, list[Step]]:
    """
    The steps for ranges whose bytes can be replaced, by the start of the range. The
    range of a seal alone does not end with a record.
    """
    steps: dict[int, list[Step]] = {}
    if not left or not may_fill(root):
        return steps
    with FillerSource(root) as source:
        for start, _, damages in left:
            parts = _fillers(source, damages)
            if parts:
                steps[start] = parts
    return steps


def _fillers(source: FillerSource, damages: tuple[Damage, ...]) -> list[Step]:
    parts: list[Step] = []
    for one in damages:
        low, high = one.offset, one.end
        if low is None or high is None or one.basis == ("seal",):
            continue
        high = source.end_of(low, high)
        if not source.bytes(low, high):
            return []
        lost = high - low
        parts.append(Step("filler", Path(one.path), (one,), low, high, lost_bytes=lost))
    return parts


def _cut(root: Path, report: StoreReport, left: list[_Range]) -> list[Step]:
    """
    What no replica has: one cut at the lowest of it. A log that lost its beginning
    keeps the rest.
    """
    steps = []
    behind = []
    for start, end, damages in left:
        if end <= report.min_offset:
            path, lost = Path(damages[0].path), end - start
            steps.append(Step("cut", path, damages, start, end, lost_bytes=lost))
        else:
            behind.append((start, end, damages))
    if behind:
        start = behind[0][0]
        end = max(report.end_offset, *(one[1] for one in behind))
        every = tuple(damage for one in behind for damage in one[2])
        steps.append(Step("cut", root, every, start, end, lost_bytes=end - start))
    return steps
