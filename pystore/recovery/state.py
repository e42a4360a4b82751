"""
What opening a store has before it: its log, its files, its truth, its visitors.

`pystore.recovery.plan` decides by it. Whether our own bounds count is asked here: was
somebody else here (A7, A15), or were files of the log lost?

Rules: docs/crash-safety.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pystore.consumequeue.queues import ConsumeQueues
from pystore.core.live_page import LiveWords
from pystore.fs.boot import Boot
from pystore.fs.layout import segment_name
from pystore.metastore.schema import BOUNDS, LEFT
from pystore.metastore.transaction import ReadTransaction
from pystore.recovery.foreign_writer import (
    Found,
    changed_exports,
    check_sizes,
    reasons_of,
)
from pystore.recovery.rocketmq import RocketmqEvidence
from pystore.recovery.segments import Segments
from pystore.rocketmq.checkpoint_file import CheckpointTimes

__all__ = [
    "RecoveryInput",
    "has_lost_segments",
    "opening_of",
    "reasons_against",
    "text_of_stranded",
]


@dataclass(frozen=True, slots=True)
class RecoveryInput:
    """
    Everything that a plan is made from.

    Attributes:
        root: the store.
        segments: its log, all of every segment readable.
        found: the small files of its root.
        queues: its consume queues, loaded.
        view: the truth in LMDB; ``None``: there is no ``meta/``.
        live: the words of the live page; ``None``: there is no ``meta/``.
        boot: the boot that runs.
        opening: what RocketMQ would look at, with its configuration.
    """

    root: Path
    segments: Segments
    found: Found
    queues: ConsumeQueues
    view: ReadTransaction | None
    live: LiveWords | None
    boot: Boot
    opening: RocketmqEvidence


def reasons_against(recovery_input: RecoveryInput) -> list[str]:
    """
    Why our own bounds are void, a line each; none: they hold, if there are any.
    """
    view = recovery_input.view
    if view is None:
        return []
    segments = tuple(
        (base, recovery_input.segments.segment_size)
        for base in recovery_input.segments.bases
    )
    check_sizes(recovery_input.root, view.read(LEFT), segments)
    stranded = tuple(recovery_input.segments.stranded)
    left = {(q.topic, q.queue_id): q.value for q in view.read(LEFT).queue_lengths}
    changed = recovery_input.queues.changed(left) if left else []
    reasons = reasons_of(view, recovery_input.found, segments, changed)
    return [*reasons, text_of_stranded(stranded)] if stranded else reasons


def text_of_stranded(bases: tuple[int, ...]) -> str:
    """
    Stranded segments in words: the first one, and how many more there are.
    """
    first, *others = bases
    more = f" (and {len(others)} more)" if others else ""
    return (
        f"segment {segment_name(first)}{more} is allocated, holds nothing and stands "
        "behind a missing one"
    )


def has_lost_segments(recovery_input: RecoveryInput, view: ReadTransaction) -> bool:
    """
    Whether files of the log are gone, all of them or those before a stranded one,
    and nothing else changed. No program leaves a store so: they were lost, or a
    file system is not mounted. Then our own bounds say what is missing.
    """
    segments = recovery_input.segments
    return (
        (not segments.bases or bool(segments.stranded))
        and view.read(BOUNDS).synced_end > 0
        and not changed_exports(view, recovery_input.found)
    )


def opening_of(found: Found, queues: ConsumeQueues) -> RocketmqEvidence:
    """
    What RocketMQ would look at, with its default configuration.

    A ``checkpoint`` that cannot be read counts as none here; whether that is an
    error is decided where it is imported.
    """
    named = queues.last_named()
    times = found.read().times or CheckpointTimes()
    return RocketmqEvidence(
        is_abort=found.is_abort,
        times=times,
        dispatch_point=-1 if named is None else named[1],
    )
