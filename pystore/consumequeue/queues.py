"""
All consume queues of a store, built from the columns of a scan.

The queues are derived: every entry can be made again from the log. So entries that
may not be on disk are not repaired: after an unclean close,
``cut(synced end of the queues)`` removes them, and ``dispatch`` writes them again.

Rows are grouped by topic and queue with numpy; Python runs once per group.

Layout: docs/format.md, consume queues.
"""

from __future__ import annotations

import os
import re
import resource
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pystore.consumequeue.below import below_first
from pystore.consumequeue.build import (
    BuildPlan,
    Dispatched,
    Group,
    groups_of,
    plan_group,
)
from pystore.consumequeue.files import QueueFiles
from pystore.consumequeue.light import LIGHT_PREFIX
from pystore.consumequeue.queue import ENTRY_SIZE, ConsumeQueue, is_filler
from pystore.errors import CorruptError, InvalidError
from pystore.fs.atomic import storage_error, sync_descriptor
from pystore.fs.fd_cache import FdCache
from pystore.fs.layout import CONSUME_QUEUE

__all__ = [
    "ConsumeQueues",
    "found_file_size",
    "name_problem",
    "queue_file_size",
    "queue_file_size_of",
]


_QUEUE_ID = re.compile(r"-?[0-9]{1,10}")
_TOPIC_BYTES_MAX = 255
_FILES_MAX = 1 << 16


def queue_file_size(configured: int = 6_000_000) -> int:
    """
    The size in bytes of a queue file: ``mappedFileSizeConsumeQueue``, rounded up to
    whole entries.
    """
    if configured <= 0:
        raise InvalidError(f"a queue file cannot have {configured} bytes")
    return -(-configured // ENTRY_SIZE) * ENTRY_SIZE


class ConsumeQueues:
    """
    The queues of one store by topic and queue.

    Reads: any thread. Changes (`load`, `dispatch`, `cut`, `delete_before`, `sync`):
    one thread at a time. A context manager; calling `close` again is allowed.

    Args:
        root: of the store.
        file_size: of a queue file in bytes, a multiple of 20.
        is_writable: whether queues may be changed.
        sync: writes the cached bytes of a descriptor to the disk.

    Attributes:
        dispatched_end: the records of the log below it have their entries.
        dispatched_ms: the store time of the last dispatched record.
        synced_end: the records of the log below it have their entries on disk.
        synced_ms: the store time of the last such record.
    """

    def __init__(
        self,
        root: Path,
        file_size: int,
        *,
        is_writable: bool = False,
        sync: Callable[[int], None] = sync_descriptor,
    ) -> None:
        if file_size <= 0 or file_size % ENTRY_SIZE:
            raise InvalidError(f"queue files of {file_size} bytes: not whole entries")
        self.folder = root / CONSUME_QUEUE
        self.file_size = file_size
        self.dispatched_end = self.dispatched_ms = 0
        self.synced_end = self.synced_ms = 0
        self._is_writable = is_writable
        self._sync = sync
        self._pool = FdCache()
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        self._dirty: set[ConsumeQueue] = set()
        self._dirty_max = _dirty_max()
        self._changed: set[tuple[str, int]] = set()
        self._has_light = False

    def __enter__(self) -> ConsumeQueues:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(list(self._queues.values()))

    def __len__(self) -> int:
        return len(self._queues)

    @property
    def has_light(self) -> bool:
        """
        Whether there is a light queue (LMQ).
        """
        return self._has_light

    def close(self) -> None:
        """
        Closes every file, without a sync.
        """
        self._pool.close()

    # -- opening --------------------------------------------------------------

    def load(
        self,
        expected: Mapping[tuple[str, int], int] | None = None,
        *,
        by_bisection: bool = False,
        bad: dict[tuple[str, int], CorruptError] | None = None,
    ) -> None:
        """
        Finds the queues of the store and their ends, anew.

        Args:
            expected: `lengths` at the last close; a queue that still ends there is
                not read.
            by_bisection: as `ConsumeQueue.load`.
            bad: gets the error of each queue that cannot be read, which is left out;
                ``None``: the first of them is raised.

        Raises:
            CorruptError: a queue's files have wrong names or lengths.
            StorageError: the system refused.
        """
        queues = {}
        for topic, queue_id in sorted(self._names()):
            queue = self._make(topic, queue_id)
            end = expected.get((topic, queue_id)) if expected else None
            try:
                queue.load(end, by_bisection=by_bisection)
            except CorruptError as error:
                if bad is None:
                    raise
                # The others are whole, or have a finding of their own.
                bad[topic, queue_id] = error
            else:
                queues[topic, queue_id] = queue
        self._changed |= self._queues.keys() | queues.keys()
        self._queues = queues
        self._has_light = any(topic.startswith(LIGHT_PREFIX) for topic, _ in queues)
        self._dirty = {queue for queue in self if queue.files.is_dirty}

    def resume(self, end: int, store_ms: int) -> None:
        """
        Sets the offset below which every record has its entry on disk. Before this
        call it is 0.

        Args:
            end: a log offset.
            store_ms: the store time of the last record below it.
        """
        self.dispatched_end = self.synced_end = end
        self.dispatched_ms = self.synced_ms = store_ms

    def _names(self) -> Iterator[tuple[str, int]]:
        try:
            topics = [path for path in self.folder.iterdir() if path.is_dir()]
            for topic in topics:
                for path in topic.iterdir():
                    # RocketMQ skips other names as well.
                    if path.is_dir() and _QUEUE_ID.fullmatch(path.name):
                        yield _topic_of(topic), int(path.name)
        except FileNotFoundError:
            # A store without a record has no queues.
            return
        except OSError as error:
            # The error of the system does not name the path.
            raise storage_error("read", self.folder, error) from error

    def _make(self, topic: str, queue_id: int) -> ConsumeQueue:
        name = os.fsdecode(topic.encode("utf-8", "surrogateescape"))
        files = QueueFiles(
            self.folder / name / str(queue_id),
            self.file_size,
            is_writable=self._is_writable,
            pool=self._pool,
            sync=self._sync,
        )
        return ConsumeQueue(topic, queue_id, files)

    # -- reading --------------------------------------------------------------

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """
        Returns a queue, or ``None`` if it never had an entry.
        """
        return self._queues.get((topic, queue_id))

    def lengths(self) -> dict[tuple[str, int], int]:
        """
        Returns the end of each queue, its next queue offset: for the core's table and
        for the fingerprint (A7).
        """
        return {key: queue.max_index for key, queue in self._queues.items()}

    def changed_lengths(self) -> dict[tuple[str, int], int]:
        """
        As `lengths`, of the queues that changed since `forget_changed`; 0: it is gone.
        """
        return {
            key: queue.max_index if (queue := self._queues.get(key)) else 0
            for key in self._changed
        }

    def forget_changed(self) -> None:
        """
        The lengths of all queues are known.
        """
        self._changed.clear()

    def lengths_below(self, end: int) -> dict[tuple[str, int], int]:
        """
        As `lengths`, of the records below a log offset.
        """
        return {key: queue.length_below(end) for key, queue in self._queues.items()}

    def changed(self, left: Mapping[tuple[str, int], int]) -> list[str]:
        """
        Returns the differences from the fingerprint, one line for each queue; empty: no
        other program wrote (A7).

        Args:
            left: `lengths` in the fingerprint.
        """
        now = self.lengths()
        return [
            f"{topic}, queue {queue_id}: {left.get(key, 0)} entries were left, "
            f"{now.get(key, 0)} are there"
            for key in sorted(left.keys() | now.keys())
            if left.get(key, 0) != now.get(key, 0)
            for topic, queue_id in [key]
        ]

    def last_named(self) -> tuple[int, int] | None:
        """
        Returns offset and end of the last record with an entry in a queue.
        """
        last = [entry for queue in self if (entry := queue.last_entry())]
        if not last:
            return None
        entry = max(last)
        return entry.offset, entry.offset + entry.size

    def last_entries(self, count: int) -> list[tuple[int, int]]:
        """
        Returns offset and size of the last ``count`` entries of each queue.
        """
        found: list[tuple[int, int]] = []
        for queue in self:
            first = max(queue.first_slot, queue.max_index - count)
            entries = queue.entries(first, queue.max_index - first)
            entries = entries[~is_filler(entries)]
            found += zip(
                entries["offset"].tolist(), entries["size"].tolist(), strict=True
            )
        return found

    def named_above(self, offset: int) -> NDArray[np.int64]:
        """
        Returns the offsets above ``offset`` of records with an entry, ascending.
        """
        found = [np.empty(0, np.int64)]
        for queue in self:
            for base in reversed(queue.files.bases):
                first = base // ENTRY_SIZE
                if first >= queue.max_index:
                    continue
                entries = queue.entries(first, self.file_size // ENTRY_SIZE)
                named = entries[~is_filler(entries)]["offset"].astype(np.int64)
                found.append(named[named > offset])
                if (named <= offset).any():
                    break
        return np.unique(np.concatenate(found))

    # -- changing -------------------------------------------------------------

    def dispatch(
        self,
        rows: NDArray[np.void],
        end: int,
        topic_name: Callable[[int], str],
        *,
        fill_gaps: bool = False,
        gap_max: int = 0,
        light: Iterable[Group] = (),
    ) -> Dispatched:
        """
        Writes an entry for every record.

        Records with an entry are skipped, so the same rows may be dispatched again.
        PREPARED and ROLLBACK records have no entry. If a queue offset is above the end
        of its queue, entries are missing and nothing is written. If the log lost their
        records, ``fill_gaps`` fills the slots.

        Args:
            rows: of a scan, in log order, with queue id, topic id and tags code.
            end: the log offset at which the scan stopped.
            topic_name: returns the topic of a topic id.
            fill_gaps: see above.
            gap_max: how many slots in a row are filled, if that is more than a file
                has.
            light: the entries of the same records in light queues. Their missing slots
                are filled, as the log may not have the records any more.

        Returns:
            The numbers of written and of skipped records, with reasons.

        Raises:
            CorruptError: entries are missing (offset of the record that shows it).
            FullError: no space is left. The same rows may be dispatched again.
            StorageError: the system refused. The same.
        """
        result = Dispatched()
        plans: list[tuple[Group, BuildPlan]] = []
        own = [(group, fill_gaps) for group in groups_of(rows, topic_name, result)]
        for group, fills in (*own, *((group, True) for group in light)):
            queue = self._queues.get((group.topic, group.queue_id))
            if problem := name_problem(group.topic, group.queue_id):
                result.refuse(group, problem)
                continue
            plan = plan_group(
                group,
                next_index=queue.max_index if queue else 0,
                end_offset=queue.end_offset if queue else 0,
                is_new=queue is None or not queue.files.bases,
                gap_max=max(gap_max, self.file_size // ENTRY_SIZE) if fills else 0,
            )
            plans.append((group, plan))
        for group, plan in plans:
            self._write(group, plan, result)
        if len(rows):
            self.dispatched_ms = int(rows["store_ms"][-1])
        self.dispatched_end = max(self.dispatched_end, end)
        return result

    def _write(self, group: Group, plan: BuildPlan, result: Dispatched) -> None:
        result.add(plan)
        if not plan.runs:
            return
        key = group.topic, group.queue_id
        queue = self._queues.get(key)
        if queue is None:
            queue = self._make(*key)
            self._has_light = self._has_light or key[0].startswith(LIGHT_PREFIX)
        self._will_change(queue)
        for index, entries in plan.runs:
            queue.append(index, entries)
            # Readers in other threads get the queue only with an entry.
            self._queues[key] = queue
            result.written += len(entries)
        self._note(queue)

    def insert(self, group: Group, first: int) -> None:
        """
        Writes entries whose queue offsets come in any order, for a log without some of
        its records; `dispatch` takes them in their order only.

        Args:
            group: the entries of one queue; no queue offset has an entry yet.
            first: the lowest queue offset that the queue will have.

        Raises:
            FullError: no space is left.
            StorageError: the system refused.
        """
        key = group.topic, group.queue_id
        queue = self._queues.get(key)
        if queue is None:
            queue = self._make(*key)
        self._will_change(queue)
        indexes, entries = group.indexes, group.entries
        edges = np.flatnonzero(np.diff(indexes) != 1) + 1
        for run in np.split(np.arange(len(indexes)), edges):
            queue.insert(int(indexes[run[0]]), entries[run], first)
        self._queues[key] = queue
        self._note(queue)

    def prepend(
        self, group: Group, min_offset: int, next_index: int | None, temporary: Path
    ) -> int:
        """
        Writes the entries of records below the log's first one, before that one begins
        lower: until then no reader sees them.

        Args:
            group: of one queue, of the segment before the log.
            min_offset: of the log.
            next_index: the next queue offset of a queue without files; ``None``: not
                known.
            temporary: a directory of the file system of the queues.

        Returns:
            The number of entries; records of an earlier topic of the name have none.

        Raises:
            FullError: no space is left; call it again.
            StorageError: the system refused; likewise.
        """
        key = group.topic, group.queue_id
        if name_problem(*key):
            return 0
        queue = self._queues.get(key)
        limit = next_index if queue is None else queue.first_index(min_offset)
        chosen = below_first(group, limit)
        if not len(chosen.indexes):
            return 0
        if queue is None:
            queue = self._make(*key)
        self._will_change(queue)
        queue.prepend(chosen.indexes, chosen.entries, temporary)
        self._queues[key] = queue
        self._has_light = self._has_light or key[0].startswith(LIGHT_PREFIX)
        self._note(queue)
        return len(chosen.indexes)

    def _will_change(self, queue: ConsumeQueue) -> None:
        """
        Adds a queue to the next sync before it changes: Ctrl-C may come after that.
        """
        self._changed.add((queue.topic, queue.queue_id))
        self._dirty.add(queue)

    def _note(self, queue: ConsumeQueue) -> None:
        """
        Removes an unchanged queue from the next sync. Each unsynced file keeps a
        descriptor open, so many of them are synced at once; this does not move
        ``synced_end``.
        """
        if not queue.files.is_dirty:
            self._dirty.discard(queue)
        if len(self._dirty) >= self._dirty_max:
            self._sync_files()

    def cut(self, end: int) -> int:
        """
        Removes the entries of records at or above a log offset, from every queue,
        and zeroes all bytes after the last entry (A2).

        Returns:
            The number of removed entries.

        Raises:
            StorageError: the system refused; cut again later.
        """
        removed = 0
        for queue in self:
            self._will_change(queue)
            removed += queue.cut(end)
            self._note(queue)
        self.dispatched_end = min(self.dispatched_end, end)
        self.synced_end = min(self.synced_end, end)
        return removed

    def delete_before(self, min_offset: int) -> int:
        """
        Removes queue files without a record in the log.

        Args:
            min_offset: the log's minimum offset.

        Returns:
            The number of removed files.
        """
        removed = 0
        for queue in self:
            removed += queue.delete_before(min_offset)
        return removed

    def sync(self) -> None:
        """
        Syncs every entry, then moves ``synced_end`` and ``synced_ms``.

        Raises:
            PoisonedError: this or an earlier sync failed: entries of records above
                ``synced_end`` may not be on disk.
        """
        end, time_ms = self.dispatched_end, self.dispatched_ms
        self._sync_files()
        self._pool.sync_names()
        self.synced_end, self.synced_ms = end, time_ms

    def _sync_files(self) -> None:
        for queue in list(self._dirty):
            queue.files.sync()
            self._dirty.discard(queue)


def _dirty_max() -> int:
    """
    The limit of unsynced files: half of the files that the process may open.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(limit, _FILES_MAX) // 2) if limit >= 0 else _FILES_MAX // 2


def _topic_of(folder: Path) -> str:
    return os.fsencode(folder.name).decode("utf-8", "surrogateescape")


def name_problem(topic: str, queue_id: int) -> str:
    """
    Why a topic and queue cannot have a folder; empty: they can.

    The body CRC does not cover the topic: a damaged topic must not be a path outside
    the store.
    """
    size = len(topic.encode("utf-8", "surrogateescape"))
    if not topic or topic in (".", "..") or "/" in topic or "\0" in topic:
        return f"the topic {topic!r} cannot be the name of a folder"
    if size > _TOPIC_BYTES_MAX:
        return f"the topic has {size} bytes, a folder's name at most {_TOPIC_BYTES_MAX}"
    if queue_id < 0:
        return f"the queue id {queue_id} is negative"
    return ""


_SIZES_COMPARED = 9
"""One of them may be damaged."""

_QUEUE_FILE_BYTES = queue_file_size()


def found_file_size(root: Path) -> int | None:
    """
    The size of the store's queue files, which most of some have; ``None``: there is
    none.
    """
    found: Counter[int] = Counter()
    for size in islice(_file_sizes(root / CONSUME_QUEUE, 2), _SIZES_COMPARED):
        found[size] += 1
    return queue_file_size(found.most_common(1)[0][0]) if found else None


def _file_sizes(folder: Path, depth: int) -> Iterator[int]:
    """
    The sizes of files at a depth, not 0; no folder is listed to its end for the first.
    """
    try:
        entries = os.scandir(folder)
    except (FileNotFoundError, NotADirectoryError):
        # A store without queues, a folder that was removed meanwhile, or no store.
        return
    with entries:
        for entry in entries:
            if depth and entry.is_dir():
                yield from _file_sizes(Path(entry.path), depth - 1)
            elif not depth and entry.is_file() and (size := _size_of(entry)):
                yield size


def _size_of(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size
    except FileNotFoundError:
        # Retention removed it meanwhile.
        return 0


def queue_file_size_of(root: Path, default: int = _QUEUE_FILE_BYTES) -> int:
    """
    The size of the store's queue files: of an existing one, else the default.
    """
    return found_file_size(root) or default
