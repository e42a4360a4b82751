"""
The input of the recovery plan: log, small files, queues, metadata, boot.

This module decides whether the bounds of the metastore are valid: whether there was a
foreign writer (A7, A15), and whether files of the log were lost.

Rules: docs/crash-safety.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pystore.consumequeue.queues import ConsumeQueues
from pystore.core.live_page import LiveWords
from pystore.fs.boot import Boot
from pystore.fs.layout import segment_name
from pystore.metastore.schema import FINGERPRINT, LENGTHS
from pystore.metastore.transaction import ReadTransaction
from pystore.recovery.foreign_writer import (
    Found,
    check_sizes,
    reasons_of,
)
from pystore.recovery.rocketmq import RocketmqEvidence
from pystore.recovery.segments import Segments
from pystore.rocketmq.checkpoint_file import CheckpointTimes

__all__ = [
    "RecoveryInput",
    "opening_of",
    "reasons_against",
    "signs_of_others",
    "text_of_stranded",
]


@dataclass(frozen=True, slots=True)
class RecoveryInput:
    """
    The input of a recovery plan.

    Attributes:
        root: the store.
        segments: of its log, readable to their ends.
        found: the small files of its root.
        queues: its consume queues, loaded.
        view: the metadata; ``None``: no ``meta/``.
        live: the words of the live page; ``None``: no ``meta/``.
        boot: the boot that runs.
        opening: the evidence that RocketMQ would use, with its configuration.
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
    Why the bounds of the metastore are void, one line each; empty: they are valid.
    """
    view = recovery_input.view
    if view is None:
        return []
    segments = _sizes_of(recovery_input)
    check_sizes(recovery_input.root, view.read(FINGERPRINT), segments)
    return signs_of_others(recovery_input, view)


def signs_of_others(recovery_input: RecoveryInput, view: ReadTransaction) -> list[str]:
    """
    As `reasons_against`, also where a segment has another size.
    """
    segments = _sizes_of(recovery_input)
    lengths = view.marks(LENGTHS).next_offsets
    left = {(q.topic, q.queue_id): q.value for q in lengths}
    changed = recovery_input.queues.changed(left) if left else []
    return reasons_of(view, recovery_input.found, segments, changed)


def _sizes_of(recovery_input: RecoveryInput) -> tuple[tuple[int, int], ...]:
    segments = recovery_input.segments
    return tuple((base, segments.segment_size) for base in segments.bases)


def text_of_stranded(bases: tuple[int, ...]) -> str:
    """
    A line about the stranded segments: the first one, and the number of others.
    """
    first, *others = bases
    more = f" (and {len(others)} more)" if others else ""
    return (
        f"segment {segment_name(first)}{more} is allocated, holds nothing and stands "
        "behind a missing one"
    )


def opening_of(found: Found, queues: ConsumeQueues) -> RocketmqEvidence:
    """
    The evidence that RocketMQ would use, with its default configuration.
    """
    named = queues.last_named()
    times = found.read().times or CheckpointTimes()
    return RocketmqEvidence(
        is_abort=found.is_abort,
        times=times,
        dispatch_point=-1 if named is None else named[1],
    )
