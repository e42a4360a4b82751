"""
The verify job without Spark: its tasks run in this process, one by one.
"""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pystore.message.message import Message
from pystore.spark.verify.run import verify_stores
from pystore.spark.verify.verdicts import SegmentVerdict
from pystore.store.commit_log import CommitLog
from pystore.store.store import Store

__all__ = ["SEGMENT", "by_word", "check", "make_replicas", "run_here"]

SEGMENT = 65536


def run_here(
    tasks: Sequence[Any], function: Callable[[Any], Any], size: Callable[[Any], int]
) -> list[Any]:
    """
    Runs tasks in this process; tasks and results are pickled, as for executors.
    """
    results = []
    for task in tasks:
        assert size(task) >= 0
        result = function(pickle.loads(pickle.dumps(task)))
        results.append(pickle.loads(pickle.dumps(result)))
    return results


def check(*roots: Path | str, **options: Any) -> list[SegmentVerdict]:
    """
    The verdicts of one round.
    """
    return verify_stores(run_here, [str(root) for root in roots], **options).verdicts


def by_word(verdicts: Sequence[SegmentVerdict]) -> dict[str, list[tuple[str, int]]]:
    """
    The segments of each store by their verdict, by name of the store.
    """
    words: dict[str, list[tuple[str, int]]] = {}
    for one in verdicts:
        segment = -1 if one.segment is None else one.segment
        name = Path(one.store).name
        words.setdefault(str(one.verdict), []).append((name, segment))
    return words


def make_replicas(
    folder: Path, count: int = 3, records: int = 1000, *, with_queues: bool = False
) -> list[Path]:
    """
    A store of several segments, closed, and equal copies of it.
    """
    first = folder / "a"
    opened = Store if with_queues else CommitLog
    with opened(first, segment_size=SEGMENT) as store:
        log = store.log if isinstance(store, Store) else store
        for number in range(records):
            body = (b"%d " % number) * 40
            message = Message(f"T{number % 3}", body, queue_id=number % 2)
            log.append(message)
    roots = [first]
    for name in "bcdefgh"[: count - 1]:
        shutil.copytree(first, folder / name, symlinks=True)
        roots.append(folder / name)
    return roots
