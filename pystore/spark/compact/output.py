"""
Completes the compaction store that RocketMQ loads, and publishes it.

Beside the files of the queues it holds RocketMQ's queue offset of each queue, a
directory for each queue that is the root of an ordinary log, and a manifest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pystore.errors import InvalidError
from pystore.fs.atomic import storage_error, sync_directory, sync_tree
from pystore.fs.layout import COMMIT_LOG
from pystore.spark.compact.checkpoint import CompactionWork, remove_work
from pystore.spark.compact.files import LOGS, make_files
from pystore.spark.compact.layout import QueueLayout
from pystore.spark.compact.plan import CompactionPlan

__all__ = ["OUTPUT", "VIEWS", "finish_output", "manifest_of", "prepare_output"]

OUTPUT, VIEWS = "compaction", "logs"
_POSITIONS, _MANIFEST = "position-checkpoint", "manifest.json"


def prepare_output(work: CompactionWork, layouts: Iterable[QueueLayout]) -> None:
    """
    Makes every file that records are copied to.

    Raises:
        StorageError: the system refused.
    """
    work.output.mkdir(exist_ok=True)
    for layout in layouts:
        make_files(work.output, layout.folder, layout.files, work.plan.choice.sizes)


def finish_output(
    work: CompactionWork, layouts: Sequence[QueueLayout], into: Path
) -> None:
    """
    Writes the other files, makes everything durable, and publishes it by one rename.

    Raises:
        StorageError: the system refused.
    """
    filled = [layout for layout in layouts if layout.files]
    positions = {
        f"{one.count.topic}_{one.count.queue_id}": one.count.last_queue_offset
        for one in filled
    }
    checkpoint = {"empty": not positions, "queueOffsetMap": positions}
    _write(work.output / _POSITIONS, checkpoint)
    _write(work.output / _MANIFEST, _manifest(work.plan, layouts))
    for layout in filled:
        _link(work.output, layout.folder)
    sync_tree(work.output)
    try:
        work.output.rename(into / OUTPUT)
    except OSError as error:
        # The caller gets the path with it.
        raise storage_error("publish", into / OUTPUT, error) from error
    sync_directory(into)
    remove_work(into)


def _manifest(plan: CompactionPlan, layouts: Sequence[QueueLayout]) -> dict[str, Any]:
    """
    Returns the content of the manifest: the plan and the queues' layouts.
    """
    return {
        "format": 1,
        "plan": json.loads(plan.text()),
        "queues": [json.loads(layout.text()) for layout in layouts],
    }


def manifest_of(into: Path) -> tuple[CompactionPlan, list[str]] | None:
    """
    Returns the plan and the layouts' texts of a published compaction.

    Returns:
        ``None``: there is no compaction.

    Raises:
        InvalidError: the directory was not made by this command.
    """
    folder = into / OUTPUT
    if not os.path.lexists(folder):
        return None
    try:
        found = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        plan = CompactionPlan.parse(json.dumps(found["plan"]))
        return plan, [json.dumps(queue) for queue in found["queues"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        # For example a broker's own compaction store: it is not changed.
        raise InvalidError(
            f"{folder} exists and was not made by this command: give another directory",
            path=str(folder),
        ) from error


def _link(output: Path, queue: str) -> None:
    """
    Makes a directory in which the queue's log is the log of a store.
    """
    view = output / VIEWS / queue
    link, target = view / COMMIT_LOG, output / LOGS / queue
    try:
        view.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(os.path.relpath(target, view), target_is_directory=True)
    except OSError as error:
        # The caller gets the path with it.
        raise storage_error("make", link, error) from error


def _write(path: Path, content: dict[str, Any]) -> None:
    try:
        text = json.dumps(content, indent=1, ensure_ascii=False)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    except OSError as error:
        # The caller gets the path with it.
        raise storage_error("write", path, error) from error
