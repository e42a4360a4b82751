"""
Compactions for tests: stores with keys, the slow way to the same result, and the
jobs done here, one after the other, without Spark.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from lib.store.logs import make_root, open_log
from pystore.core.log_reader import LogReader
from pystore.core.log_writer import LogHandle
from pystore.message.message import Message
from pystore.message.record import Record
from pystore.spark.compact.checkpoint import CompactionWork
from pystore.spark.compact.copy import COPIED_OF, copy_records
from pystore.spark.compact.layout import PLACES_SCHEMA, QueueLayout, lay_out
from pystore.spark.compact.plan import CompactionChoice, CompactionPlan
from pystore.spark.compact.scan import SCANNED_SCHEMA, scan_segment
from pystore.spark.compact.sizes import file_sizes

__all__ = [
    "CHOICE",
    "LocalJobs",
    "digest",
    "fill",
    "latest",
    "make_store",
    "queue_records",
    "value",
]

CHOICE = CompactionChoice((), keep_tombstones=False, sizes=file_sizes(4000, 1656))
"""Files that hold 35 records at most, or fewer larger ones."""


class LocalJobs:
    """
    The jobs of a compaction, without Spark: every task is run once, in order.
    """

    def survey(self, plan: CompactionPlan) -> list[str]:
        """
        Returns the layout of each queue.
        """
        return _texts(self._places(plan, with_records=False))

    def lay_out(self, work: CompactionWork) -> list[str]:
        """
        Plans the place of each record.
        """
        rows = self._places(work.plan, with_records=True)
        work.rows.mkdir(exist_ok=True)
        pyarrow.parquet.write_table(rows, work.rows / "rows.parquet")
        return _texts(rows)

    def copy(
        self,
        work: CompactionWork,
        layouts: Iterable[QueueLayout],
        done: Collection[int],
    ) -> None:
        """
        Copies the segments that are not copied yet.
        """
        names = {layout.hash: layout.folder for layout in layouts}
        rows = pyarrow.parquet.read_table(work.rows / "rows.parquet")
        rows = rows.filter(pa.compute.field("kind") == 1).select(COPIED_OF)
        rows = rows.filter(~pa.compute.field("segment").isin(list(done)))
        rows = rows.sort_by([("segment", "ascending"), ("offset", "ascending")])
        for _ in copy_records(rows.to_batches(50), work.plan, names, work.folder):
            pass

    def _places(self, plan: CompactionPlan, *, with_records: bool) -> pa.Table:
        scanned = [
            batch
            for split in plan.splits()
            for batch in scan_segment(split, plan.choice.topics)
        ]
        rows = _latest_rows(pa.Table.from_batches(scanned, SCANNED_SCHEMA))
        # Small batches, so that batches end within queues.
        batches = lay_out(rows.to_batches(37), plan, with_records=with_records)
        return pa.Table.from_batches(batches, PLACES_SCHEMA)


def _latest_rows(scanned: pa.Table) -> pa.Table:
    newest: dict[tuple[int, int, bytes], dict[str, Any]] = {}
    for row in scanned.to_pylist():
        key = row["queue"], row["kind"], row["key"]
        if key not in newest or newest[key]["offset"] < row["offset"]:
            newest[key] = row
    rows = sorted(
        newest.values(), key=lambda row: (row["queue"], row["kind"], row["offset"])
    )
    return pa.Table.from_pylist(rows, SCANNED_SCHEMA)


def _texts(rows: pa.Table) -> list[str]:
    return [text for text in rows.column("text").to_pylist() if text is not None]


def make_store(folder: Path, seed: int = 1, records: int = 1500) -> Path:
    """
    A store of several segments with records of every kind.
    """
    root = make_root(folder)
    with open_log(root) as log:
        fill(log, random.Random(seed), records)
    return root


def fill(log: LogHandle, chance: random.Random, records: int) -> None:
    """
    Appends records with and without keys, bodies and checksums of properties.
    """
    for _ in range(records):
        keys = f"key {chance.randrange(60)}" if chance.random() < 0.95 else None
        if chance.random() < 0.02:
            keys = " "
        body = chance.randbytes(chance.choice([0, 1, 10, 300]))
        message = Message(
            f"T{chance.randrange(3)}",
            body,
            queue_id=chance.randrange(3),
            keys=keys,
            tags=chance.choice([None, "tag"]),
            sys_flag=chance.choice([0, 0, 0, 4, 8, 12]),
        )
        log.append(message.form)


def latest(
    root: Path, end: int | None = None, *, keep_tombstones: bool = False
) -> dict[str, list[Record]]:
    """
    What a compaction keeps of each queue, found one record after the other.

    Args:
        root: of the store.
        end: nothing above counts.
        keep_tombstones: whether these stay.
    """
    queues: dict[str, dict[str, Record]] = {}
    for record in _records(root):
        is_read = end is None or record.offset + record.size <= end
        if is_read and not record.sys_flag & 4 and (record.keys or "").strip():
            keys = queues.setdefault(f"{record.topic}/{record.queue_id}", {})
            keys.pop(record.keys or "", None)
            keys[record.keys or ""] = record
    kept = {}
    for queue, keys in queues.items():
        newest = list(keys.values())
        kept[queue] = [
            one for one in newest if one.body or keep_tombstones or one is newest[-1]
        ]
    return kept


def _records(root: Path) -> Iterator[Record]:
    with LogReader(root) as log:
        for rows in log.scan(log.ends().min_offset):
            yield from (log.read(int(offset)) for offset in rows["offset"])


def queue_records(into: Path) -> dict[str, list[Record]]:
    """
    Every record of a compaction, by queue, read from the queues' logs.
    """
    views = into / "compaction" / "logs"
    return {
        path.parent.relative_to(views).as_posix(): list(_records(path.parent))
        for path in sorted(views.glob("*/*/commitlog"))
    }


def value(record: Record) -> tuple[Any, ...]:
    """
    The value that a consumer gets from a record.
    """
    properties = {
        name: text for name, text in record.properties.items() if name != "__CRC32#"
    }
    times = record.store_ms, record.born_ms
    return record.queue_offset, record.body, record.tags_code, *times, properties


def digest(into: Path) -> dict[str, str]:
    """
    The content of every file and link of a published compaction.
    """
    found = {}
    for path in sorted((into / "compaction").rglob("*")):
        name = path.relative_to(into).as_posix()
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file() and path.name != "manifest.json":
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found
