"""
Applies a plan to a closed store.

First, under the lock: bytes of replicas, then queues and seals moved beside the store.
Then the store is opened, which builds the queues again and, if its caller consents,
cuts the log where promised bytes are bad.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pystore.consumequeue.queues import (
    ConsumeQueues,
    found_file_size,
    queue_file_size_of,
)
from pystore.core.live_page import LivePage
from pystore.core.lock import Lock
from pystore.core.results import Block
from pystore.doctor.filler_source import FillerSource
from pystore.doctor.patch import fill, patch
from pystore.doctor.plan import HealingPlan, Step, live_path, make_plan
from pystore.doctor.source import Source
from pystore.errors import InvalidError
from pystore.fs.atomic import storage_error, sync_directory
from pystore.fs.layout import CONSUME_QUEUE, LOCK, META_NAME, SEALS_NAME, require_store
from pystore.metastore.database import MetaStore
from pystore.metastore.schema import QUEUES
from pystore.metastore.values import QueueBounds
from pystore.recovery.salvage import save_loss
from pystore.recovery.segments import Segments
from pystore.seals import seal_name
from pystore.store.commit_log import CommitLog
from pystore.store.store import Store
from pystore.verify import verify_store
from pystore.verify.bound import find_dispatched
from pystore.verify.report import StoreReport
from pystore.verify.scan_pool import ProgressCallback

__all__ = ["Healing", "heal"]


_ROUNDS = 4
"""A segment from a replica shows damage that was hidden before, as of its seal; so does
a new live page."""


class Healing(NamedTuple):
    """
    What was done to a store.

    Attributes:
        plan: from a verification under the lock.
        kept: the directory beside the store with what was replaced; ``None``: nothing
            was.
    """

    plan: HealingPlan
    kept: Path | None


def heal(
    root: Path,
    replicas: Sequence[Path] = (),
    *,
    accept_loss: bool = False,
    save_to: Path | None = None,
    progress: ProgressCallback | None = None,
) -> Healing:
    """
    Verifies a store under its lock, and does what heals it, in the order of loss.

    Args:
        root: of the store, which no writer has open.
        replicas: roots of stores that may have damaged bytes.
        accept_loss: whether the log may be cut; without it the other steps are done.
        save_to: the parent of the directory for removed bytes; ``None``: that of the
            store.
        progress: of the verification.

    Raises:
        InvalidError: the plan has a step that only an operator can do.
        LockedError: a writer has the store.
        PystoreError: as `make_plan`, `patch`, and as opening a store for writing.
    """
    require_store(root)
    kept = _Kept(root, save_to)
    try:
        plan = _heal_rounds(root, replicas, kept, progress, accept_loss=accept_loss)
    finally:
        kept.remove_empty()
    return Healing(plan, kept.path)


def _heal_rounds(
    root: Path,
    replicas: Sequence[Path],
    kept: _Kept,
    progress: ProgressCallback | None,
    *,
    accept_loss: bool,
) -> HealingPlan:
    steps: list[Step] = []
    plan = HealingPlan(())
    file_size, is_unfinished, is_unopened = None, False, False
    handle: type[Store | CommitLog] = CommitLog
    for _ in range(_ROUNDS):
        with Lock(root / LOCK) as lock:
            report = verify_store(root, progress=progress, is_locked=True)
            plan = make_plan(root, report, replicas)
            _refuse_by_hand(plan)
            has_more = _has_more(root, plan)
            is_refused = bool(plan.lost_bytes) and not accept_loss
            # A cut waits for the last round, which plans it again.
            is_last = is_refused or not has_more
            steps += [one for one in plan.steps if is_last or one.heal != "cut"]
            # A queue that is built again keeps the size of its files.
            file_size, handle = found_file_size(root), _handle_of(root, plan)
            if not plan.steps and not is_unopened:
                is_unfinished = not steps and _has_forgotten_queues(root, report)
                break
            _heal_files(root, lock, plan, kept.make(), accept_loss=accept_loss)
        if is_refused:
            break
        is_unopened = has_more
        if is_unopened:
            continue
        _open(root, plan, partial(handle, queue_file_bytes=file_size), kept.save_to)
        break
    else:
        # Each round had bytes of a replica: the opening says what is left.
        _open(root, plan, partial(handle, queue_file_bytes=file_size), kept.save_to)
    if is_unfinished and file_size:
        opens = partial(Store, queue_file_bytes=file_size)
        _open(root, plan, opens, kept.save_to)
    return HealingPlan(tuple(steps), plan.refusals)


def _has_more(root: Path, plan: HealingPlan) -> bool:
    """
    Whether the store is verified again before it is opened: without the page no opening
    sees what the metadata knows of a lost beginning, and behind bytes of an older
    replica more may be missing, which an opening refuses.
    """
    return any(
        step.heal == "replica" or step.path == live_path(root) for step in plan.steps
    )


def _handle_of(root: Path, plan: HealingPlan) -> type[Store | CommitLog]:
    """
    The handle that completes what the store has: one without queues gets none, since
    nothing shows the size of their files.
    """
    folder = root / CONSUME_QUEUE
    has_queues = folder.is_dir() or any(
        step.path.is_relative_to(folder) for step in plan.steps
    )
    return Store if has_queues else CommitLog


def _open(
    root: Path,
    plan: HealingPlan,
    opens: Callable[..., Store | CommitLog],
    save_to: Path | None,
) -> None:
    """
    Opens the store, which builds its queues; cuts the log where the plan says so.

    An opening cuts what it finds above its bounds; damage below them, in the middle of
    a log that was closed cleanly, it does not look for.
    """
    cuts = [step for step in plan.steps if step.heal == "cut"]
    with opens(root, create=False, accept_loss=bool(cuts), save_to=save_to) as store:
        log = store.log if isinstance(store, Store) else store
        for step in cuts:
            if step.path != root or step.offset is None:
                continue  # the log begins later, which opening accepted
            if step.offset < log.end_offset:
                save_loss(root, Segments(log.reader), step.offset, save_to)
                store.cut(step.offset)


def _heal_files(
    root: Path, lock: Lock, plan: HealingPlan, kept: Path, *, accept_loss: bool
) -> None:
    is_rebuilt = False
    for step in plan.steps:
        if step.heal == "replica":
            _take(root, lock, step, kept)
    for step in plan.steps:
        if step.heal in ("rebuild", "seal again"):
            lock.check()
            _move(root, step.path, kept)
            if step.path == live_path(root):
                # An opening writes its words, and wants the file.
                LivePage.create(step.path)
            is_rebuilt |= step.path.is_relative_to(root / CONSUME_QUEUE)
    for step in plan.steps:
        # Only now every queue can be read.
        if step.heal == "filler" and accept_loss:
            _fill(root, lock, step, kept)
            is_rebuilt = True
    if is_rebuilt:
        _forget_queues(root)


def _fill(root: Path, lock: Lock, step: Step, kept: Path) -> None:
    """
    Fillers in place of a range; the queues that have entries of it are built again,
    and the seal of the segment is no longer right.
    """
    if step.offset is None or step.end is None:
        raise InvalidError(f"{step.path}: a step without a range")
    with FillerSource(root) as source:
        data = source.bytes(step.offset, step.end)
        size = source.segment_size
    base = step.offset - step.offset % size
    fill(root, lock, base, Block(step.offset, memoryview(data)), kept)
    _move(root, root / META_NAME / SEALS_NAME / seal_name(base), kept)
    with ConsumeQueues(root, queue_file_size_of(root)) as queues:
        queues.load()
        for queue in queues:
            entries = queue.entries(
                queue.first_slot, queue.max_index - queue.first_slot
            )
            offsets = entries["offset"]
            if ((offsets >= step.offset) & (offsets < step.end)).any():
                _move(root, queue.files.folder, kept)


def _has_forgotten_queues(root: Path, report: StoreReport) -> bool:
    """
    Whether a healing was killed after it moved queues away, before they were built.
    """
    return (
        report.queues.missing > 0
        and (root / META_NAME).is_dir()
        and not find_dispatched(root)
    )


def _forget_queues(root: Path) -> None:
    """
    No entry counts as written: the next opening builds every queue from the log.
    """
    if (root / META_NAME).is_dir():
        with (
            MetaStore.open(root / META_NAME) as metastore,
            metastore.change() as change,
        ):
            change.write(QUEUES, QueueBounds())


def _refuse_by_hand(plan: HealingPlan) -> None:
    for step in plan.steps:
        if step.heal == "by hand":
            reason = step.damages[0].reason.removeprefix(f"{step.path}: ")
            raise InvalidError(f"{step.path}: {reason}", path=str(step.path))


def _take(root: Path, lock: Lock, step: Step, kept: Path) -> None:
    if step.source is None or step.offset is None or step.end is None:
        raise InvalidError(f"{step.path}: a step without a source")
    with Source(step.source) as source:
        patch(root, lock, source, (step.offset, step.end), kept)


class _Kept:
    """
    The directory for what is replaced, made when it is needed.
    """

    def __init__(self, root: Path, save_to: Path | None) -> None:
        self._place = root.absolute()
        self.save_to = save_to
        self.path: Path | None = None

    def make(self) -> Path:
        """
        Makes a new directory, once, and returns it.
        """
        number = 1
        parent = self._place.parent if self.save_to is None else self.save_to
        while self.path is None:
            folder = parent / f"{self._place.name}.healed-{number}"
            try:
                folder.mkdir(parents=self.save_to is not None)
            except FileExistsError:
                # What an earlier run replaced keeps its directory.
                number += 1
            except OSError as error:
                # The error of the system does not name the path.
                raise storage_error("create", folder, error) from error
            else:
                self.path = folder
        return self.path

    def remove_empty(self) -> None:
        """
        Removes the directory if nothing was replaced.
        """
        if self.path is not None and not any(self.path.iterdir()):
            self.path.rmdir()
            self.path = None


def _move(root: Path, path: Path, kept: Path) -> None:
    """
    Moves a queue or a seal out of the store.
    """
    if not path.exists():
        return
    target = kept / path.absolute().relative_to(root.absolute())
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, target)
    except OSError as error:
        # As above.
        raise storage_error("move away", path, error) from error
    sync_directory(target.parent)
    sync_directory(path.parent)
