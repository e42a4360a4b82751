"""
The dry run: the recovery plan of a store, without a change.

It works on any RocketMQ store, with or without ``meta/``, and beside a running writer,
whose bytes above the published end do not count.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pystore.consumequeue.queues import ConsumeQueues, queue_file_size_of
from pystore.core.live_page import LivePage, LiveWords
from pystore.core.log_reader import LogReader
from pystore.fs.boot import boot_of
from pystore.fs.layout import LIVE_NAME, META_NAME, require_store
from pystore.metastore.database import MetaStore
from pystore.metastore.schema import CLEAN, INCARNATION
from pystore.recovery.foreign_writer import Found, find
from pystore.recovery.plan import RecoveryPlan, plan
from pystore.recovery.rocketmq import RocketmqEvidence
from pystore.recovery.segments import Segments
from pystore.recovery.state import (
    RecoveryInput,
    has_lost_segments,
    opening_of,
    reasons_against,
)
from pystore.replicaset import Incarnation
from pystore.stored_names import public

__all__ = ["Inspection", "inspect", "inspect_ours"]


@public
@dataclass(frozen=True, slots=True)
class Inspection:
    """
    The state of a store, and its recovery plan.

    Attributes:
        plan: of an opening for writing.
        found: the small files of its root.
        live: the words of the live page, or ``None``.
        incarnation: of the last writer, or ``None`` without ``meta/``.
        has_clean_mark: whether the last writer stored one, valid or not.
        segments: base offsets.
        segment_size: in bytes.
    """

    plan: RecoveryPlan
    found: Found
    live: LiveWords | None
    incarnation: Incarnation | None
    has_clean_mark: bool
    segments: tuple[int, ...]
    segment_size: int


@public
def inspect(
    root: Path,
    adjust: Callable[[RocketmqEvidence], RocketmqEvidence] = lambda opening: opening,
    *,
    with_rocketmq: bool = True,
) -> Inspection:
    """
    Inspect a store.

    Args:
        root: the store's directory.
        adjust: changes the configuration of RocketMQ from the default.
        with_rocketmq: also find the end that RocketMQ would find, by one more scan.

    Raises:
        NotAStoreError: missing, or no store.
        FormatError: a small file cannot be read.
        StorageError: the system refused.
    """
    found = _inspect(root, adjust, with_rocketmq=with_rocketmq, only_ours=False)
    assert found is not None
    return found


def inspect_ours(root: Path) -> Inspection | None:
    """
    As `inspect` if the bounds of the metastore are valid; ``None``: they are void, or
    there are none, and only a scan of the whole log finds its end (A8).

    Raises:
        NotAStoreError, FormatError, StorageError: as `inspect`.
    """
    return _inspect(root, lambda opening: opening, with_rocketmq=False, only_ours=True)


def _inspect(
    root: Path,
    adjust: Callable[[RocketmqEvidence], RocketmqEvidence],
    *,
    with_rocketmq: bool,
    only_ours: bool,
) -> Inspection | None:
    require_store(root)
    with ExitStack() as stack:
        log = stack.enter_context(LogReader(root))
        queues = stack.enter_context(ConsumeQueues(root, queue_file_size_of(root)))
        queues.load()
        found = find(root)
        view = live = None
        if (root / META_NAME).is_dir():
            metastore = MetaStore.open_read_only(root / META_NAME)
            stack.enter_context(metastore)
            view = stack.enter_context(metastore.view())
            live = LivePage(root / META_NAME / LIVE_NAME).read()
        incarnation = view.read(INCARNATION) if view else None
        segments = Segments(log)
        recovery_input = RecoveryInput(
            root=root,
            segments=segments,
            found=found,
            queues=queues,
            view=view if incarnation and incarnation.counter else None,
            live=live,
            boot=boot_of(root),
            opening=adjust(opening_of(found, queues)),
        )
        if only_ours and not _has_valid_bounds(recovery_input):
            return None
        made = plan(recovery_input, with_rocketmq=with_rocketmq)
        return Inspection(
            plan=made,
            found=found,
            live=live,
            incarnation=incarnation,
            has_clean_mark=view is not None and view.read(CLEAN) is not None,
            segments=tuple(segments.bases),
            segment_size=segments.segment_size,
        )


def _has_valid_bounds(recovery_input: RecoveryInput) -> bool:
    view = recovery_input.view
    if view is None:
        return False
    return has_lost_segments(recovery_input, view) or not reasons_against(
        recovery_input
    )
