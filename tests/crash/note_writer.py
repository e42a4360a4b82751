"""
Notes of a recorded process between its effects: operations that begin, and acks. The
notes are in the trace, so a crash at any point divides them.

Each operation has a note before and a note after. The note after has the metadata at
that time: a check accepts the metadata of the note before or of the note after.
"""

from __future__ import annotations

import ctypes
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np

from pystore.bindings.ffi import POSITION_DTYPE
from pystore.core.options import AckName
from pystore.core.results import Appended
from pystore.epochs.table import EpochTable
from pystore.message.columns import gather_columns
from pystore.message.message import Message
from pystore.metastore.schema import BOUNDS, CUT, IDENTITY, INCARNATION
from pystore.seals import block_digest
from pystore.store.commit_log import CommitLog
from pystore.store.cut import begin_at
from pystore.store.mend import (
    GoodBlock,
    PulledSegment,
    install_before,
    install_within,
    patch,
    pulled_path,
)
from pystore.store.retention import Retention
from pystore.store.store import Store

__all__ = ["SEGMENT_SIZE", "NoteWriter"]

SEGMENT_SIZE = 16384
QUEUE_FILE_BYTES = 400  # 20 entries


class NoteWriter:
    """
    Works on a store, and writes notes.

    Args:
        root: the store.
        prefix: of the bodies, so that no two processes write equal ones.
    """

    def __init__(self, root: Path, prefix: str = "") -> None:
        self.root = root
        self.prefix = prefix
        self.number = 0
        self.raw_bodies: list[str] = []
        self.notes: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._library = ctypes.CDLL(None)
        self.log: CommitLog
        self.store: Store | None = None

    def note(self, **note: Any) -> None:
        """Put a note into the trace, if there is one."""
        self.notes.append(note)
        if hasattr(self._library, "trace_mark"):
            text = json.dumps(note).encode()
            self._library.trace_mark(text, ctypes.c_uint64(len(text)))

    def fail_next_sync(self, path: str, number: int) -> None:
        """The next sync of a file whose path contains ``path`` fails."""
        self._library.trace_fail(path.encode(), number)

    def metadata(self) -> dict[str, Any]:
        """The present metadata of the open store."""
        ends = self.log.ends
        checkpoint = self.log.writer.metastore
        queues, _ = self.log.writer.log.queues_fill()
        with checkpoint.view() as view:
            return {
                "published": ends.published_end,
                "synced": ends.synced_end,
                "min": ends.min_offset,
                "bound": view.read(BOUNDS).synced_end,
                "generation": view.read(CUT).generation,
                "counter": view.read(INCARNATION).counter,
                "epochs": self.log.epochs.pairs(),
                "identity": IDENTITY.to_json(view.read(IDENTITY)),
                "queues": [[*key, value] for key, value in sorted(queues.items())],
            }

    def records(self) -> dict[int, str]:
        """Every record, by offset."""
        return {offset: self.log.read(offset).data.hex() for offset in self.starts()}

    def starts(self) -> list[int]:
        """The offsets of the records."""
        return [int(row["offset"]) for rows in self.log.scan() for row in rows]

    def begin(self, deed: str, **more: Any) -> None:
        """The note before."""
        self.note(begin=deed, thread=threading.get_ident(), **more)

    def done(self, deed: str, **more: Any) -> None:
        """The note after."""
        more.setdefault("metadata", None)
        more["metadata"] = more["metadata"] or self.metadata()
        self.note(done=deed, thread=threading.get_ident(), **more)

    # -- operations --------------------------------------------------------

    def open(self, **options: Any) -> CommitLog:
        """Open for writing; no thread of the core syncs by itself."""
        options = {"flush_interval_ms": 0, "segment_size": SEGMENT_SIZE} | options
        self.begin("open")
        self.log = CommitLog(self.root, **options)
        self.done("open", records=self.records())
        return self.log

    def open_store(self) -> Store:
        """Open with consume queues, whose files are small."""
        self.begin("open")
        self.store = Store(
            self.root,
            queue_file_bytes=QUEUE_FILE_BYTES,
            flush_interval_ms=0,
            segment_size=SEGMENT_SIZE,
        )
        self.log = self.store.log
        self.done("open", records=self.records())
        return self.store

    def close(self) -> None:
        """Close, which marks the store clean."""
        self.begin("close")
        metadata = self.metadata()
        (self.store or self.log).close()
        metadata["synced"] = metadata["published"]
        self.done("close", metadata=metadata)

    def bodies(self, count: int, size: int) -> list[bytes]:
        """Bodies that no process wrote before."""
        with self._lock:
            start = self.number
            self.number += count
        return [
            f"{self.prefix}{number}:".encode().ljust(size, b"%x" % (number % 16))
            for number in range(start, start + count)
        ]

    def append(
        self, count: int = 1, size: int = 300, ack: AckName = "leader", topic: str = "T"
    ) -> None:
        """Append messages as one batch, to two queues."""
        bodies = self.bodies(count, size)
        self.raw_bodies += [body.decode() for body in bodies]
        whole = [body.decode() for body in bodies]
        self.begin("append", bodies=whole, is_batch=True)
        batch = [Message(topic, b, queue_id=i % 2) for i, b in enumerate(bodies)]
        positions = np.zeros(count, POSITION_DTYPE)
        appended = self.log.append_batch(batch, ack, positions)
        self._appended(appended, positions, ack)

    def append_columns(
        self, count: int, size: int = 300, ack: AckName = "leader"
    ) -> None:
        """Append columns, which may span segments."""
        bodies = self.bodies(count, size)
        self.raw_bodies += [body.decode() for body in bodies]
        self.begin("append", bodies=[body.decode() for body in bodies])
        positions = np.zeros(count, POSITION_DTYPE)
        columns = gather_columns("C", bodies)
        appended = self.log.append_columns(columns, ack, positions)
        self._appended(appended, positions, ack)

    def _appended(self, appended: Appended, positions: Any, ack: AckName) -> None:
        offsets = [int(offset) for offset in positions["offset"]]
        records = {offset: self.log.read(offset).data.hex() for offset in offsets}
        synced = appended.end if ack == "leader-synced" else 0
        self.done("append", records=records, synced=synced)

    def append_raw(self, offset: int, data: bytes) -> None:
        """Append what a master sent, which was written and cut here before."""
        before = set(self.starts())
        self.begin("append", bodies=self.raw_bodies)
        self.log.writer.log.append_raw(offset, data)
        records = {at: raw for at, raw in self.records().items() if at not in before}
        self.done("append", records=records, synced=0)

    def sync(self) -> None:
        """Sync."""
        self.begin("sync")
        self.log.sync()
        self.done("sync")

    def keep(self) -> None:
        """Store the bounds."""
        self.begin("keep")
        (self.store or self.log).keep()
        self.done("keep")

    def cut(self, offset: int) -> None:
        """Cut."""
        self.begin("cut", offset=offset)
        (self.store or self.log).cut(offset)
        self.done("cut", offset=offset)

    def begin_at(self, base: int) -> None:
        """Let an empty log begin elsewhere."""
        self.begin("begin at")
        begin_at(self.log.writer, base)
        self.done("begin at")

    def begin_epoch(self, epoch: int) -> None:
        """Begin a mastership."""
        self.begin("epoch")
        self.log.begin_epoch(epoch)
        self.done("epoch")

    def delete_before(self, offset: int) -> None:
        """Retention."""
        self.begin("delete")
        self.log.delete_before(offset)
        self.done("delete")

    def retain(self, total_bytes_max: int) -> None:
        """Retention by size, with queues and epochs."""
        assert self.store is not None
        self.begin("delete")
        self.store.retain(Retention(None, total_bytes_max), 0)
        self.done("delete")

    def install_before(self, base: int, data: bytes, epochs: EpochTable) -> None:
        """A segment of another copy becomes the first one."""
        assert self.store is not None
        self.begin("install")
        pulled_path(self.root, base).write_bytes(data)
        pulled = PulledSegment(base, epochs)
        install_before(self.log.writer, self.store.queues, pulled)
        self.done("install")

    def install_within(self, base: int, data: bytes) -> None:
        """A segment of another copy replaces a damaged one."""
        self.begin("install")
        pulled_path(self.root, base).write_bytes(data)
        install_within(self.log.writer, base)
        self.done("install")

    def patch(self, base: int, data: bytes) -> None:
        """A segment gets the bytes of another copy in place."""
        self.begin("patch")
        patch(self.log.writer, [GoodBlock(base, data, block_digest([data]))])
        self.done("patch")
