"""
pystore as a contender: three ways to append, from an empty store until durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from contest import Contender, Timed
from load import Load

from pystore.store.commit_log import CommitLog

__all__ = ["WAYS", "writer"]


def _columns(log: CommitLog, load: Load) -> None:
    append, columns = log.append_columns, load.columns
    for _ in range(load.batches):
        append(columns)


def _batch(log: CommitLog, load: Load) -> None:
    append, messages = log.append_batch, load.messages
    for _ in range(load.batches):
        append(messages)


def _single(log: CommitLog, load: Load) -> None:
    append, messages = log.append, load.messages
    for _ in range(load.batches):
        for message in messages:
            append(message)


WAYS: dict[str, Callable[[CommitLog, Load], None]] = {
    "columns": _columns,
    "batch": _batch,
    "single": _single,
}


def writer(
    way: str,
    folder: Callable[[], Path],
    load: Load,
    segment: int,
    sizes: list[int] | None = None,
) -> Contender:
    """
    Appends a load in one of the `WAYS`.

    Timed: every append, with the segments that they begin, and the sync at the
    end. Not timed: opening an empty store, making the batch, closing.

    Args:
        way: of appending.
        folder: makes a new folder.
        load: to append.
        segment: size of a segment.
        sizes: receives the bytes of the log, run by run.
    """
    # Touched here, so that no run has to make it.
    assert load.columns if way == "columns" else load.messages

    @contextmanager
    def contend() -> Iterator[Timed]:
        root = folder()
        with CommitLog(root, segment_size=segment) as log:

            def run() -> None:
                WAYS[way](log, load)
                log.sync()

            yield run
            if sizes is not None:
                sizes.append(log.end_offset)
            assert sum(log.writer.log.queues_fill()[0].values()) == load.records

    return contend
