"""
One run of an export: plan, write in tasks, publish.

The function that runs the tasks is an argument: Spark, or a loop in tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pystore.errors import InvalidError
from pystore.spark.export.commit import (
    COMPRESSIONS,
    Commit,
    ExportedFile,
    ExportShape,
    StoreRange,
)
from pystore.spark.export.layout import day_folder, topic_folder
from pystore.spark.export.publish import (
    last_commit,
    lock_export,
    move_file,
    publish,
    staging,
)
from pystore.spark.export.resume import ExportBounds, StoreExport
from pystore.spark.export.space import require_space
from pystore.spark.export.task import ExportTask, TaskResult, pack_tasks
from pystore.spark.plan.paths import find_stores
from pystore.spark.plan.schema import DAMAGE, choose_columns, needs_of
from pystore.spark.source.followed_log import FollowedLog
from pystore.spark.source.offsets import StreamOffsets
from pystore.spark.source.replicas import LogReplicas, find_logs, with_known_keys

__all__ = ["ExportRequest", "Tasks", "run_export"]

_PIECE_BYTES = 64 << 20

Tasks = Callable[[Sequence[ExportTask]], Iterable[TaskResult]]
"""Runs tasks, and returns the result of one attempt of each task."""


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """
    The options of a run. ``None``: as in the first run.

    Attributes:
        stores: paths, globs, ``file:`` URLs.
        into: the exported directory.
        columns: of the files; by default all but bodies.
        bodies: whether to export all columns, with bodies.
        topics: shell patterns; by default all topics.
        compression: of the Parquet files; by default zstd.
        on_damage: ``fail``, ``report`` or ``skip``.
        bounds: the range of offsets.
    """

    stores: tuple[str, ...]
    into: Path
    columns: tuple[str, ...] | None = None
    bodies: bool = False
    topics: tuple[str, ...] | None = None
    compression: str | None = None
    on_damage: str = "fail"
    bounds: ExportBounds = field(default_factory=ExportBounds)


def run_export(request: ExportRequest, tasks: Tasks, parallelism: int) -> Commit | None:
    """
    Exports the new records of the stores.

    Args:
        request: the options.
        tasks: runs the tasks.
        parallelism: number of tasks that run at once.

    Returns:
        The commit of the run; ``None``: there were no new records.

    Raises:
        InvalidError: an option is invalid, or differs from the first run's.
        LockedError: another run exports into the directory.
        CutError: a log was cut below its exported end.
        OffsetOutOfRange: records were deleted before they were exported.
        CorruptError: a log is damaged, and ``on_damage`` is ``fail``.
        NotAStoreError: a path names no store.
        StorageError: a store or the directory cannot be read or written.
        FormatError: the newest commit file is invalid.
        FullError: the disk has less space than the run takes.
        UnavailableError: Spark failed.
    """
    stores = find_stores(request.stores)
    into = request.into.absolute()  # workers have another current directory
    with lock_export(into):
        last = last_commit(into)
        shape = _shape(request, last)
        before = last.positions if last else {}
        plans = [
            StoreExport(log, before.get(log.key), request.bounds)
            for log in _logs(stores, before)
        ]
        number = last.run + 1 if last else 1
        if not any(plan.gap or plan.size for plan in plans):
            return None
        with staging(into) as (attempts, tree):
            packed = _pack(plans, shape, request, attempts, parallelism)
            require_space(into, packed)
            results = list(tasks(packed)) if packed else []
            files = [file for result in results for file in _move_files(result, tree)]
            for plan in plans:
                plan.require_unchanged()
            positions = before | {plan.key: plan.exported_end for plan in plans}
            commit = Commit(
                number,
                shape,
                tuple(_range(plan, files) for plan in plans),
                positions,
                tuple(plan.gap for plan in plans if plan.gap),
                tuple(one for result in results for one in result.damages),
                tuple(files),
            )
            publish(into, tree, commit)
        return commit


def _logs(stores: Sequence[Path], before: StreamOffsets) -> list[FollowedLog]:
    """
    The logs of the stores. A store that was moved keeps its position.
    """

    def follow(log: LogReplicas) -> FollowedLog:
        return FollowedLog(log, published=False)

    named, _ = with_known_keys(
        find_logs(stores),
        before,
        lambda log, position: follow(log).holds(position),
    )
    return [follow(log) for log in named]


def _shape(request: ExportRequest, last: Commit | None) -> ExportShape:
    """
    The shape of the first run. The request must not differ from it.
    """
    if request.columns is not None or request.bodies or last is None:
        wanted = choose_columns(
            request.columns, with_body=request.bodies, with_damage=False
        )
        columns = tuple(one.name for one in wanted if one.name not in ("topic", DAMAGE))
        if not columns:
            raise InvalidError(
                "no column to write: the topic is in the name of a directory"
            )
    else:
        columns = last.shape.columns
    old = last.shape if last else ExportShape(columns, (), COMPRESSIONS[0])
    topics = old.topics if request.topics is None else tuple(sorted(request.topics))
    compression = request.compression or old.compression
    if last and (set(columns), topics) != (set(old.columns), old.topics):
        raise InvalidError(
            f"{request.into}: the first run chose the columns "
            f"{', '.join(old.columns)} and {_topics_text(old.topics)}: choose the same "
            "or none, or give another directory"
        )
    return ExportShape(old.columns, topics, compression)


def _topics_text(topics: tuple[str, ...]) -> str:
    return f"the topics {', '.join(topics)}" if topics else "all topics"


def _pack(
    plans: Sequence[StoreExport],
    shape: ExportShape,
    request: ExportRequest,
    attempts: Path,
    parallelism: int,
) -> list[ExportTask]:
    """
    The tasks of a run. A small range is split into parts of segments.

    Raises:
        CorruptError: records are missing, and ``on_damage`` is ``fail``.
    """
    total = sum(plan.size for plan in plans)
    piece = max(_PIECE_BYTES, -(-total // max(1, parallelism)))
    columns = choose_columns(shape.columns, with_body=False, with_damage=False)
    with_epochs = "epochs" in needs_of(columns)
    splits = [
        split for plan in plans for split in plan.splits(piece, with_epochs=with_epochs)
    ]
    if request.on_damage == "fail":
        for plan in plans:
            plan.require_served(splits)
    return pack_tasks(splits, shape, request.on_damage, attempts, parallelism)


def _move_files(result: TaskResult, tree: Path) -> Iterator[ExportedFile]:
    """
    Moves the files of an attempt into the tree of the run.
    """
    for file in result.files:
        folders = f"{topic_folder(file.part.topic)}/{day_folder(file.part.day)}"
        path = f"{folders}/{file.name}.parquet"
        move_file(Path(result.folder) / file.name, file.size, tree / path)
        yield ExportedFile(
            path, result.store, file.rows, file.size, file.min_offset, file.max_offset
        )


def _range(plan: StoreExport, files: Sequence[ExportedFile]) -> StoreRange:
    rows = sum(file.rows for file in files if file.store == plan.store)
    return StoreRange(plan.store, plan.from_offset, plan.exported_end.offset, rows)
