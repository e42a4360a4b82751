"""
Reading a store as the tasks of one query would, with the core and without.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from lib.store.logs import make_root, open_log
from pystore.message.message import Message
from pystore.spark.plan.options import SourceOptions
from pystore.spark.plan.schema import choose_columns
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.splits import plan_splits
from pystore.spark.scan import task

__all__ = ["make_store", "read"]


def read(
    root: Path, columns: list[str] | None = None, **chosen: Any
) -> list[dict[str, Any]]:
    """
    Every row of a store, as one query would get it.
    """
    selection = chosen.pop("selection", Selection())
    options = SourceOptions((str(root),), **chosen)
    wanted = choose_columns(
        columns, with_body=True, with_damage=options.on_damage == "report"
    )
    splits = plan_splits([root], options, selection, with_epochs=True)
    rows: list[dict[str, Any]] = []
    for split in splits:
        batches = task.read_split(
            split,
            wanted,
            selection,
            on_damage=options.on_damage,
            rows_per_batch=options.rows_per_batch,
        )
        for batch in batches:
            assert isinstance(batch, pa.RecordBatch)
            assert batch.num_rows <= options.rows_per_batch
            rows += batch.to_pylist(maps_as_pydicts="strict")
    return rows


def make_store(folder: Path) -> Path:
    """
    A store of 400 records in several segments, copied while it is written.
    """
    root = make_root(folder)
    with open_log(root) as log:
        for number in range(400):
            body = bytes([number % 256]) * (number * 5)
            message = Message(f"T{number % 3}", body, queue_id=number % 4, keys="k")
            log.append(message.form)
    return root
