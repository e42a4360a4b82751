"""
The dry run: the recovery plan of a store, without a change.

It works on any RocketMQ store, with or without ``meta/``, and beside a running writer,
whose bytes above the published end do not count.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pystore.consumequeue.queue import ENTRY_SIZE
from pystore.consumequeue.queues import ConsumeQueues, queue_file_size_of
from pystore.core.live_page import LivePage, LiveWords
from pystore.core.log_reader import LogReader
from pystore.core.options import LogOptions
from pystore.errors import FormatError, NotAStoreError, PystoreError
from pystore.fs.boot import boot_of
from pystore.fs.layout import LIVE_NAME, META_NAME, require_store, store_root
from pystore.metastore.database import MetaStore
from pystore.metastore.schema import CLEAN, INCARNATION
from pystore.metastore.transaction import ReadTransaction
from pystore.recovery.foreign_writer import Found, find
from pystore.recovery.plan import RecoveryPlan, evidence_of, plan
from pystore.recovery.rocketmq import RocketmqEvidence
from pystore.recovery.segments import Segments
from pystore.recovery.state import (
    RecoveryInput,
    opening_of,
    reasons_against,
    signs_of_others,
)
from pystore.recovery.stored_bounds import (
    bounds_of,
    clean_mark,
    lost_beginning,
    stored_end,
)
from pystore.recovery.torn_tail import Bound, Evidence
from pystore.replicaset import Incarnation
from pystore.stored_names import public

__all__ = ["Inspection", "find_bounds", "find_stored_end", "inspect"]


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
    root: str | os.PathLike[str],
    adjust: Callable[[RocketmqEvidence], RocketmqEvidence] = lambda opening: opening,
    *,
    with_rocketmq: bool = True,
    serves_ill: bool = False,
) -> Inspection:
    """
    Inspect a store.

    Args:
        root: the store's directory.
        adjust: changes the configuration of RocketMQ from the default.
        with_rocketmq: also find the end that RocketMQ would find, by one more scan.
        serves_ill: also where segments are missing, short or unreadable, which an
            opening for writing refuses.

    Raises:
        InvalidError: no path.
        NotAStoreError: missing, or no store.
        FormatError: a small file cannot be read.
        StorageError: the system refused.
    """
    state = _state(store_root(root), adjust, serves_ill=serves_ill)
    with state as (recovery_input, view):
        made = plan(recovery_input, with_rocketmq=with_rocketmq)
        segments = recovery_input.segments
        return Inspection(
            plan=made,
            found=recovery_input.found,
            live=recovery_input.live,
            incarnation=view.read(INCARNATION) if view else None,
            has_clean_mark=view is not None and view.read(CLEAN) is not None,
            segments=tuple(segments.bases),
            segment_size=segments.segment_size,
        )


class StoreBounds(NamedTuple):
    """
    The bounds of a store.

    Attributes:
        bound: no record below may be bad.
        lost: the stored beginning of the log and the present one, if segments at the
            beginning are missing (A16).
        unreadable: an error for each small file that cannot be parsed, and for a
            segment of another size; the bounds are those without them. An opening for
            writing refuses.
    """

    bound: Bound | Evidence
    lost: tuple[int, int] | None = None
    unreadable: tuple[FormatError | NotAStoreError, ...] = ()


def find_bounds(root: Path, queues: ConsumeQueues | None = None) -> StoreBounds:
    """
    The bounds that an opening for writing would use, without a scan of the log.

    Args:
        root: the store's directory.
        queues: of the store, loaded; ``None``: they are loaded here, without those
            that cannot be read.

    Raises:
        NotAStoreError, FormatError, StorageError: as `inspect`.
    """
    found, unreadable = find(root).readable()
    errors: list[FormatError | NotAStoreError] = [*unreadable]
    with ExitStack() as stack:
        if queues is None:
            queues = stack.enter_context(ConsumeQueues(root, queue_file_size_of(root)))
            # A queue that cannot be read has a finding of its own.
            queues.load(bad={})
        recovery_input, _ = stack.enter_context(
            _state(root, lambda one: one, serves_ill=True, queues=queues, found=found)
        )
        lost, view = None, recovery_input.view
        if view is not None:
            lost = lost_beginning(recovery_input, view)
        bound = _bound_of(recovery_input, errors)
        return StoreBounds(bound, lost, tuple(errors))


def _bound_of(
    recovery_input: RecoveryInput, errors: list[FormatError | NotAStoreError]
) -> Bound | Evidence:
    view = recovery_input.view
    if view is None:
        return evidence_of(recovery_input)
    try:
        reasons = reasons_against(recovery_input)
    except NotAStoreError as error:
        # A segment of another size takes back no end that was stored.
        errors.append(error)
        reasons = signs_of_others(recovery_input, view)
    if reasons:
        return evidence_of(recovery_input)
    mark = clean_mark(recovery_input, view)
    if mark is not None:
        return Bound(mark.end_offset, "clean mark")
    return bounds_of(recovery_input, view).bound


def find_stored_end(root: Path) -> int:
    """
    The end that pystore stored as synced, for a reader without a valid live page (A16);
    0: none, or the metadata cannot be read, which an opening for writing reports.

    Args:
        root: the directory of the store.
    """
    if not (root / META_NAME).is_dir():
        return 0
    # The queues have no part in it.
    queues = ConsumeQueues(root, ENTRY_SIZE)
    try:
        small_files, _ = find(root).readable()
        with _state(
            root, lambda one: one, serves_ill=True, queues=queues, found=small_files
        ) as (found, _):
            stored = None if found.view is None else stored_end(found, found.view)
    except PystoreError:
        # The reader serves what it finds, as from a store of RocketMQ.
        return 0
    finally:
        queues.close()
    return 0 if stored is None else stored.offset


@contextmanager
def _state(
    root: Path,
    adjust: Callable[[RocketmqEvidence], RocketmqEvidence],
    *,
    serves_ill: bool,
    queues: ConsumeQueues | None = None,
    found: Found | None = None,
) -> Iterator[tuple[RecoveryInput, ReadTransaction | None]]:
    """
    The input of a plan, and the metadata also of a store that was never opened.
    """
    require_store(root)
    with ExitStack() as stack:
        options = LogOptions(serves_ill=serves_ill)
        log = stack.enter_context(LogReader(root, options))
        if queues is None:
            queues = stack.enter_context(ConsumeQueues(root, queue_file_size_of(root)))
            queues.load()
        if found is None:
            found = find(root)
        view = live = None
        if (root / META_NAME).is_dir():
            metastore = MetaStore.open_read_only(root / META_NAME)
            stack.enter_context(metastore)
            view = stack.enter_context(metastore.view())
            live = LivePage(root / META_NAME / LIVE_NAME).read()
            view.check(live.incarnation)
        incarnation = view.read(INCARNATION) if view else None
        yield (
            RecoveryInput(
                root=root,
                segments=Segments(log),
                found=found,
                queues=queues,
                view=view if incarnation and incarnation.counter else None,
                live=live,
                boot=boot_of(root),
                opening=adjust(opening_of(found, queues)),
            ),
            view,
        )
