"""
Carries out a plan: on a store that this process has open for writing, or on one that
no process has.

Source: docs/autorecovery.md, patch and install.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pystore.core.lock import Lock
from pystore.errors import CorruptError, OffsetOutOfRange, StorageError
from pystore.fs.atomic import storage_error, sync_directory
from pystore.fs.layout import COMMIT_LOG, LOCK, META_NAME, segment_path
from pystore.seals import BLOCK_BYTES
from pystore.segments.copy import LogCopy
from pystore.segments.mend_plan import (
    MendAction,
    MendPlan,
    MendStep,
    Unmended,
    plan_mending,
)
from pystore.segments.pace import Pace
from pystore.segments.pull import ReachCallback, good_block, pull_segment
from pystore.segments.store_copy import StoreCopy
from pystore.store.mend import (
    GoodBlock,
    PulledSegment,
    forget_pulled,
    install_before,
    install_within,
    keep_aside,
    patch,
    pulled_path,
    write_block,
)
from pystore.store.store import Store

__all__ = [
    "MendProgress",
    "check_step",
    "fill_store",
    "install_file",
    "kept_directory",
    "mend_closed",
    "mend_open",
    "patch_blocks",
    "patch_file",
    "pull",
    "pull_file",
    "put_in_place",
    "unshared",
]


@dataclass(slots=True)
class MendProgress:
    """
    How far a repair is; another thread may read it.

    Attributes:
        plan: what is to be done.
        done: the steps that are done: the disk was read again.
        unmended: the segments that are left, with the reasons.
        moved_bytes: of blocks, so far.
        pace: that the repair keeps.
    """

    plan: MendPlan = field(default_factory=lambda: MendPlan(()))
    done: list[MendStep] = field(default_factory=list)
    unmended: list[Unmended] = field(default_factory=list)
    moved_bytes: int = 0
    pace: Pace = field(default_factory=Pace)

    def begin(self, plan: MendPlan) -> None:
        """
        The plan is made.
        """
        self.plan = plan
        self.unmended.extend(plan.unmended)

    def moved(self, size: int) -> None:
        """
        So many more bytes were copied; waits as long as the pace wants.
        """
        self.moved_bytes += size
        self.pace.spend(size)

    def failed(self, step: MendStep, error: CorruptError) -> None:
        """
        No source of a step has its bytes any more.
        """
        self.unmended.append(Unmended(step.base, step.reason, (str(error),)))


def kept_directory(root: Path) -> Path:
    """
    Returns a new directory beside a store for the files that are replaced; it is made
    with the first of them.
    """
    number = 1
    while (path := root.parent / f"{root.name}.mended-{number}").exists():
        number += 1
    return path


def fill_store(
    store: Store, lock: AbstractContextManager[object]
) -> Callable[[PulledSegment], None]:
    """
    Returns a function that puts a segment before the log of a store.

    Args:
        store: open for writing.
        lock: that the store was opened with.
    """

    def fill(pulled: PulledSegment) -> None:
        with lock:
            install_before(store.log.writer, store.queues, pulled)

    return fill


def unshared(root: Path, step: MendStep) -> MendStep:
    """
    Returns a step that changes no file which another store shares by a hard link, as
    one of a backup: instead of a patch it puts a whole file in its place. The whole
    blocks here count as a source, the last one.

    Args:
        root: of the store.
        step: of its plan.

    Raises:
        StorageError: the system refused to tell.
    """
    path = segment_path(root, step.base)
    if step.action is not MendAction.PATCH:
        return step
    try:
        if path.stat().st_nlink == 1:
            return step
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("look at", path, error) from error
    return replace(
        step,
        action=MendAction.INSTALL,
        reason=f"{step.reason}, and another store shares the file",
        sources=(*step.sources, StoreCopy(root)),
        blocks=tuple(range(len(step.digests))),
    )


def mend_open(
    store: Store,
    fill: Callable[[PulledSegment], None],
    steps: Iterable[MendStep],
    kept: Path,
    progress: MendProgress,
) -> None:
    """
    Mends a store while appends and reads go on. Any thread; blocks.

    Args:
        store: open for writing.
        fill: puts a segment before the log.
        steps: of a plan for its copy.
        kept: the directory for files that are replaced.
        progress: hears of each step; one whose sources fail is left.

    Raises:
        PystoreError: as `pystore.store.mend.patch`, `pull_segment`,
            `pystore.store.mend.install_before`; the steps before are done.
    """
    pending = deque(steps)
    with ThreadPoolExecutor(1, "pystore-pull") as pool:
        ahead: Future[None] | None = None
        while pending:
            step = pending.popleft()
            try:
                step = unshared(store.path, step)
                if step.action is MendAction.PATCH:
                    patch_blocks(store, step, progress.moved)
                else:
                    coming = ahead or pool.submit(pull, store, step, progress.moved)
                    ahead = None
                    coming.result()
                    if pending and pending[0].action is not MendAction.PATCH:
                        # While this one is installed, the next one comes.
                        ahead = pool.submit(pull, store, pending[0], progress.moved)
                    put_in_place(store, fill, step, kept)
                check_step(store.path, step)
            except CorruptError as error:
                # None of the sources: the other segments may have some.
                progress.failed(step, error)
                if step.action is MendAction.FILL:
                    return  # those below cannot be put before it
                continue
            except (OffsetOutOfRange, StorageError):
                if step.action is MendAction.FILL or step.base >= store.log.min_offset:
                    raise
                # Retention has deleted it meanwhile.
                forget_pulled(store.path, step.base)
                continue
            progress.done.append(step)


def patch_blocks(store: Store, step: MendStep, on_block: ReachCallback) -> None:
    """
    Writes the bad blocks of a step in place.

    Args:
        store: open for writing.
        step: a patch.
        on_block: hears of each block; it may raise to end the work.

    Raises:
        PystoreError: as `pystore.store.mend.patch` and `good_block`.
    """
    for index in step.blocks:
        data, offset = good_block(step, index), step.base + index * BLOCK_BYTES
        patch(store.log.writer, [GoodBlock(offset, data, step.digests[index])])
        on_block(len(data))


def pull(store: Store, step: MendStep, on_block: ReachCallback) -> None:
    """
    Copies a whole segment beside the log of a store.

    Args:
        store: open for writing.
        step: an install, or a fill.
        on_block: as in `patch_blocks`.

    Raises:
        PystoreError: as `pull_segment`.
    """
    pull_file(store.path, step, store.log.ends.segment_size, on_block)


def pull_file(root: Path, step: MendStep, size: int, on_block: ReachCallback) -> None:
    """
    As `pull`, of a store that need not be open.

    Args:
        root: of the store.
        step: as in `pull`.
        size: of a segment, in bytes.
        on_block: as in `patch_blocks`.

    Raises:
        PystoreError: as `pull_segment`.
    """
    pull_segment(step, pulled_path(root, step.base), size, on_block)


def put_in_place(
    store: Store, fill: Callable[[PulledSegment], None], step: MendStep, kept: Path
) -> None:
    """
    Makes a pulled segment one of the log.

    Args:
        store: open for writing.
        fill: puts a segment before the log.
        step: that was pulled.
        kept: the directory for a file that is replaced.

    Raises:
        PystoreError: as `install_within` and `install_before`.
    """
    if step.action is MendAction.INSTALL:
        install_within(store.log.writer, step.base, kept)
    else:
        ends = store.log.ends
        if ends.synced_end == ends.min_offset:
            # A log that has just begun: nothing goes before what is not on disk.
            store.log.sync()
        fill(PulledSegment(step.base, step.epochs, step.seal))


def mend_closed(
    root: Path,
    sources: Sequence[LogCopy],
    kept: Path,
    segment: int | None = None,
    progress: MendProgress | None = None,
) -> MendProgress:
    """
    Mends a store that no process has open: first its files under the lock, since it may
    not open before, then, if its log began late, the segments before.

    Args:
        root: of the store.
        sources: other copies, the preferred one first.
        kept: the directory for files that are replaced.
        segment: only the one with this base offset; ``None``: all.
        progress: hears of each step.

    Returns:
        What was done, and what no copy mends.

    Raises:
        LockedError: a writer has the store.
        PystoreError: as `mend_open`, and as opening a store for writing.
    """
    progress = progress or MendProgress()
    with Lock(root / LOCK) as lock:
        own = StoreCopy(root)
        progress.begin(plan_mending(own, sources, segment, is_closed=True))
        steps = progress.plan.steps
        for planned in (one for one in steps if one.action is not MendAction.FILL):
            step = unshared(root, planned)
            lock.check()
            try:
                _mend_file(own, step, kept, progress)
            except CorruptError as error:
                # As in `mend_open`.
                progress.failed(step, error)
                continue
            check_step(root, step)
            progress.done.append(step)
    fills = [one for one in steps if one.action is MendAction.FILL]
    if fills:
        # No other thread uses it.
        with Store(root, create=False) as store:
            mend_open(store, fill_store(store, nullcontext()), fills, kept, progress)
    return progress


def _mend_file(
    own: StoreCopy, step: MendStep, kept: Path, progress: MendProgress
) -> None:
    if step.action is MendAction.PATCH:
        patch_file(own.root, step, progress.moved)
        return
    pull_file(own.root, step, own.facts.segment_size, progress.moved)
    install_file(own.root, step.base, kept)


def patch_file(
    root: Path,
    step: MendStep,
    on_block: ReachCallback,
    changing: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> None:
    """
    As `patch_blocks`, of a store that no process has open.

    Args:
        root: of the store.
        step: a patch.
        on_block: as in `patch_blocks`.
        changing: held while a block is written; it may raise `PystoreError`.

    Raises:
        PystoreError: as `write_block` and `good_block`.
    """
    path = segment_path(root, step.base)
    for index in step.blocks:
        data = good_block(step, index)
        with changing():
            write_block(path, index * BLOCK_BYTES, memoryview(data))
        on_block(len(data))


def install_file(root: Path, base: int, kept: Path) -> None:
    """
    Makes a pulled segment one of a log that no process has open.

    Args:
        root: of the store.
        base: of the segment.
        kept: the directory for the file that is replaced.

    Raises:
        StorageError: the system refused it.
    """
    path, pulled = segment_path(root, base), pulled_path(root, base)
    keep_aside(path, kept)
    try:
        pulled.replace(path)
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("install", path, error) from error
    sync_directory(root / COMMIT_LOG)
    if not (root / META_NAME).is_dir():
        with suppress(OSError):
            # Of a store of RocketMQ: it is empty, unless another copy was interrupted.
            pulled.parent.rmdir()


def check_step(root: Path, step: MendStep) -> None:
    """
    Compares blocks of a step with what the disk has: all that were patched; of a whole
    file, whose blocks were compared before they were written and synced, the first and
    the last.

    Raises:
        StorageError: they differ.
    """
    own, blocks = StoreCopy(root), step.blocks
    if step.action is not MendAction.PATCH:
        blocks = (blocks[0], blocks[-1])
    for index, digest in own.digests(step.base, blocks).items():
        if digest != step.digests[index]:
            raise StorageError(
                f"{segment_path(root, step.base)}: block {index} differs from what was "
                "written: replace the disk",
                path=str(root),
            )
