"""
Transactions of the metastore: the records that must change together. Pure.

A `WriteTransaction` collects the records that one transaction will store. Each method
keeps a rule about several records, so that no caller can store half of it. The digest
of an export is stored together with the exported record.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pystore.epochs.file import encode_epochs
from pystore.epochs.table import EpochTable
from pystore.errors import FencedError, FormatError, InvalidError
from pystore.fs.boot import StorePlace
from pystore.fs.cut_history import CutHistory
from pystore.fs.layout import (
    CHECKPOINT,
    EPOCH_FILE,
    IDENTITY_FILE,
    META_ADVICE,
    TEMPORARY_IDENTITY_FILE,
)
from pystore.metastore.mark_table import MarkTable, Rows, TableHead
from pystore.metastore.schema import (
    BOUNDS,
    CLEAN,
    CUT,
    EPOCHS,
    EXPORTS,
    FINGERPRINT,
    FORMAT,
    HEADS,
    IDENTITY,
    INCARNATION,
    KEYS,
    LENGTHS,
    LOSSY,
    PLACE,
    POSITIONS,
    PROMISED,
    QUEUES,
    STARTS,
    MetaKey,
)
from pystore.metastore.values import (
    NOT_LOSSY,
    Bounds,
    CleanMark,
    CutState,
    Identity,
    QueueMark,
    QueueOffsets,
    StoreFingerprint,
)
from pystore.replicaset import Incarnation
from pystore.rocketmq.checkpoint_file import CheckpointTimes
from pystore.rocketmq.identity_file import TemporaryIdentity

__all__ = ["ReadTransaction", "WriteTransaction"]

T = TypeVar("T")

_STARTS_MAX = 16


class ReadTransaction:
    """
    The records at one moment.

    Args:
        get: the stored bytes of a key, or ``None``.
        rows: keys that begin with some bytes, with what is stored, ascending.
        path: of the database, for messages.
    """

    def __init__(
        self,
        get: Callable[[bytes], bytes | None],
        rows: Callable[[bytes], Iterable[tuple[bytes, bytes]]],
        path: str,
    ) -> None:
        self._get = get
        self._rows = rows
        self._path = path
        self._marks: dict[str, QueueOffsets] = {}

    def read(self, key: MetaKey[T]) -> T:
        """
        The value of a record; its default if it was never written.

        Raises:
            FormatError: the digest of the stored bytes is wrong.
        """
        return key.decode(self._get(key.key), self._path)

    def marks(self, table: MarkTable) -> QueueOffsets:
        """
        All rows of a table.

        Raises:
            FormatError: a row is damaged, missing, or one too many.
        """
        if table.name not in self._marks:
            self._marks[table.name] = self._stored_marks(table)
        return self._marks[table.name]

    def as_of(self, table: MarkTable) -> int:
        """
        The end of the log that a table is of, without its rows.
        """
        return self.read(HEADS[table]).as_of

    def _stored_marks(self, table: MarkTable) -> QueueOffsets:
        head = self.read(HEADS[table])
        old = head.old
        if table is LENGTHS and not self.read(FORMAT).has_rows:
            old = self.read(FINGERPRINT).old_lengths
        if old is not None:
            return QueueOffsets(head.as_of, old)
        rows = self._rows(table.prefix)
        return QueueOffsets(head.as_of, table.decode(rows, head, self._path))

    def check(self, live_incarnation: int = 0) -> None:
        """
        Read every record and row, also those that nothing needs now.

        Args:
            live_incarnation: the counter in the live page.

        Raises:
            FormatError: as `read`; or a key has an unknown name, so that the record
                of a changed name counts as one that was never written; or the live
                page is of a later opening.
        """
        for key in KEYS:
            self.read(key)
        for table in HEADS:
            self.marks(table)
        if not self.read(FORMAT).compatible:
            self._check_names()
        self._check_not_older(live_incarnation)

    def _check_names(self) -> None:
        known = {key.key for key in (*KEYS, *HEADS.values())}
        prefixes = tuple(table.prefix for table in HEADS)
        for name, _ in self._rows(b""):
            if name not in known and not name.startswith(prefixes):
                raise FormatError(
                    f"{self._path}: a record has the unknown name {name[:40]!r}: "
                    f"{META_ADVICE}",
                    path=self._path,
                )

    def _check_not_older(self, incarnation: int) -> None:
        """
        Check that the database is not an older copy: an opening stores its incarnation
        here, and after that in the live page.

        Args:
            incarnation: the counter in the live page.

        Raises:
            FormatError: the live page has a later one.
        """
        own = self.read(INCARNATION).counter
        if incarnation > own:
            folder = os.path.dirname(self._path)
            raise FormatError(
                f"{folder}: lmdb/ is of opening {own} and live of opening "
                f"{incarnation}, so one of them is another copy: {META_ADVICE}",
                path=folder,
            )


@dataclass(slots=True)
class _TableChange:
    """
    The changes of one table.

    Attributes:
        as_of: the end of the log that it will be of.
        marks: new numbers.
        is_whole: whether all other rows go.
    """

    as_of: int
    marks: dict[tuple[str, int], int] = field(default_factory=dict)
    is_whole: bool = False


class WriteTransaction(ReadTransaction):
    """
    Records with changes; nothing is stored before the transaction ends.
    """

    def __init__(
        self,
        get: Callable[[bytes], bytes | None],
        rows: Callable[[bytes], Iterable[tuple[bytes, bytes]]],
        path: str,
    ) -> None:
        super().__init__(get, rows, path)
        self._written: dict[str, tuple[MetaKey[Any], Any]] = {}
        self._changed: dict[MarkTable, _TableChange] = {}

    def read(self, key: MetaKey[T]) -> T:
        """
        The value in this transaction.
        """
        if key.name in self._written:
            value: T = self._written[key.name][1]
            return value
        return super().read(key)

    def marks(self, table: MarkTable) -> QueueOffsets:
        """
        All rows of a table in this transaction.
        """
        change = self._changed.get(table)
        if change is None:
            return super().marks(table)
        values: dict[tuple[str, int], int] = {}
        if not change.is_whole:
            before = super().marks(table).next_offsets
            values = {(mark.topic, mark.queue_id): mark.value for mark in before}
        values |= {
            key: max(value, values.get(key, value)) if table.only_rises else value
            for key, value in change.marks.items()
        }
        marks = (QueueMark(*key, value) for key, value in values.items())
        return QueueOffsets(change.as_of, tuple(marks))

    def as_of(self, table: MarkTable) -> int:
        """
        As in `ReadTransaction`, in this transaction.
        """
        change = self._changed.get(table)
        return super().as_of(table) if change is None else change.as_of

    def write(self, key: MetaKey[T], value: T) -> None:
        """
        Give a record a value. Prefer a method for this record, if there is one.
        """
        self._written[key.name] = (key, value)

    def write_marks(self, table: MarkTable, marks: QueueOffsets) -> None:
        """
        Replace all rows of a table.
        """
        values = {(one.topic, one.queue_id): one.value for one in marks.next_offsets}
        self._changed[table] = _TableChange(marks.as_of, values, is_whole=True)

    def change_marks(
        self, table: MarkTable, changed: Mapping[tuple[str, int], int], as_of: int = 0
    ) -> None:
        """
        Change some rows of a table; the others are up to date.

        Args:
            table: of marks.
            changed: (topic, queue id) -> number.
            as_of: the end of the log that the table is of now; it never falls.
        """
        change = self._changed.setdefault(table, _TableChange(self.as_of(table)))
        change.as_of = max(change.as_of, as_of)
        change.marks.update(changed)

    def store_in_rows(self) -> bool:
        """
        Give each queue mark of an older pystore a row of its own.

        Returns:
            Whether there was something to do.
        """
        form = self.read(FORMAT)
        if form.has_rows:
            return False
        for table in HEADS:
            self.write_marks(table, self.marks(table))
        self.write(FINGERPRINT, StoreFingerprint(self.read(FINGERPRINT).segments))
        self.write(FORMAT, form.with_rows())
        return True

    def records(self) -> list[tuple[bytes, bytes | None]]:
        """
        The keys and bytes to store, ``None``: to remove; each key once, and only
        changed bytes.
        """
        records: Rows = {
            key.key: key.encode(value) for key, value in self._written.values()
        }
        gone: list[bytes] = []
        for table, change in self._changed.items():
            head = self._put_rows(table, change, records, gone)
            records[HEADS[table].key] = HEADS[table].encode(head)
        changed = [pair for pair in records.items() if self._get(pair[0]) != pair[1]]
        return sorted([*changed, *((key, None) for key in gone)])

    def _put_rows(
        self, table: MarkTable, change: _TableChange, records: Rows, gone: list[bytes]
    ) -> TableHead:
        """
        Add the rows of one table; returns its head.
        """
        marks = (QueueMark(*key, value) for key, value in change.marks.items())
        if change.is_whole:
            rows = dict(map(table.encode, marks))
            gone.extend(key for key, _ in self._rows(table.prefix) if key not in rows)
            records.update(rows)
            return TableHead.of(change.as_of, rows)
        head = replace(super().read(HEADS[table]), as_of=change.as_of)
        for mark in marks:
            key, row = table.encode(mark)
            before = self._get(key)
            if before == row:
                continue
            if before is not None:
                stored = table.value_in(key, before, self._path)
                if table.only_rises and stored > mark.value:
                    continue
            head = head.put(before, row)
            records[key] = row
        return head

    def begin_incarnation(self, draw: Callable[[int], bytes]) -> Incarnation:
        """
        Begin an incarnation: the counter rises, the bits are new (B1).

        Args:
            draw: returns n random bytes; `os.urandom`.
        """
        incarnation = Incarnation(self.read(INCARNATION).counter + 1, draw(16))
        self.write(INCARNATION, incarnation)
        first, *rest = self.read(STARTS) or (None,)
        if first is not None:
            # The first one is that which controllers know.
            rest = [*rest, incarnation][-_STARTS_MAX + 1 :]
            self.write(STARTS, (first, *rest))
        return incarnation

    def note_registered(self, incarnation: Incarnation) -> None:
        """
        Controllers have registered this start: the ones before it are past (B1).
        """
        if self.read(STARTS) != (incarnation,):
            self.write(STARTS, (incarnation,))

    def store_place(self, place: StorePlace) -> None:
        """
        Store device and inode of the store (A15). The caller has decided before whether
        the bounds are valid.
        """
        self.write(PLACE, place)

    def store_identity(self, identity: Identity) -> None:
        """
        Store the identity of the broker, and intend its export to both identity files.
        """
        self.write(IDENTITY, identity)
        is_temporary = isinstance(identity, TemporaryIdentity)
        content = None if identity is None else identity.encode()
        self.intend_export(IDENTITY_FILE, None if is_temporary else content)
        self.intend_export(TEMPORARY_IDENTITY_FILE, content if is_temporary else None)

    def promise(self, epoch: int) -> None:
        """
        Promise never to accept a lower epoch (B6).

        Raises:
            FencedError: a higher one is promised already.
        """
        promised = self.read(PROMISED)
        if epoch < promised:
            raise FencedError(
                f"epoch {epoch} is below the promised epoch {promised}: "
                "another master was accepted since"
            )
        self.write(PROMISED, epoch)

    def begin_epoch(self, epoch: int, start_offset: int) -> EpochTable:
        """
        Begin a mastership at the log's end; its first byte may follow.

        Raises:
            FencedError: a higher epoch is promised.
            InvalidError: the epoch is not new, or starts below the last one.
        """
        self.promise(epoch)
        table = self.read(EPOCHS).append(epoch, start_offset)
        self.replace_epochs(table)
        return table

    def replace_epochs(self, table: EpochTable) -> None:
        """
        Store an epoch table: imported, or cut at either side.
        """
        self.write(EPOCHS, table)
        self.intend_export(EPOCH_FILE, encode_epochs(table))

    def store_bounds(
        self,
        bounds: Bounds,
        times: CheckpointTimes | None = None,
    ) -> None:
        """
        Store lower bounds of the log (A5).

        Args:
            bounds: the synced end and the confirm offset; ends of records.
            times: the next content of ``checkpoint``; ``None``: unchanged.

        Raises:
            InvalidError: the synced end is above a cut that is not finished.
        """
        intent = self.read(CUT).intent
        if intent is not None and bounds.synced_end > intent:
            raise InvalidError(
                f"synced end {bounds.synced_end} is above the unfinished cut "
                f"at {intent}",
                offset=bounds.synced_end,
            )
        self.write(BOUNDS, bounds)
        if times is not None:
            self.intend_export(CHECKPOINT, times.encode())

    def intend_cut(self, offset: int) -> CutState:
        """
        Store the intent to cut the log at ``offset``: the first step of a cut (A3).

        It lowers the bounds, cuts the epoch table, and voids the clean mark and the
        queue offsets of a longer log. The intent of an unfinished cut never rises.

        Returns:
            The new generation, and the offset to cut at.
        """
        if offset < 0:
            raise InvalidError(f"cannot cut at {offset}", offset=offset)
        state = self.read(CUT)
        if state.intent is not None:
            offset = min(offset, state.intent)
        generation = state.generation + 1
        state = CutState(generation, offset, state.history.after(generation, offset))
        self.write(CUT, state)
        bounds = self.read(BOUNDS)
        self.write(
            BOUNDS,
            replace(
                bounds,
                synced_end=min(bounds.synced_end, offset),
                confirm_offset=min(bounds.confirm_offset, offset),
            ),
        )
        if self.as_of(POSITIONS) > offset:
            self.write_marks(POSITIONS, QueueOffsets())
        queues = self.read(QUEUES)
        if queues.synced_end > offset:
            self.write(QUEUES, replace(queues, synced_end=offset))
        self.replace_epochs(self.read(EPOCHS).cut_suffix(offset))
        self.void_clean()
        return state

    def intend_undo(self, end: int) -> None:
        """
        Store the intent to cut at the log's end: what a failed append wrote above could
        not be removed, and must not come back (A19). Nothing below changes.
        """
        state = self.read(CUT)
        if state.intent is None:
            generation = state.generation + 1
            history = state.history.after(generation, end)
            self.write(CUT, CutState(generation, end, history))
            self.void_clean()

    def note_loss(self, offset: int) -> None:
        """
        Note that records from an offset on were given up, in the store of a broker: it
        may have acknowledged them, and is elected only unclean until a master admits it
        (B4). In a store of no set nobody was told that they are elsewhere, too.
        """
        if self.read(IDENTITY) is None:
            return
        known = self.read(LOSSY)
        self.write(LOSSY, offset if known == NOT_LOSSY else min(known, offset))

    def note_end(self, offset: int, *, is_known: bool) -> None:
        """
        Note that an opening chose the end of the log: records that were published
        above it are gone, as after a cut.

        Args:
            offset: the end.
            is_known: whether only pystore has changed the log, so that the history
                tells all cuts.
        """
        state = self.read(CUT)
        if is_known and state.intent is not None:
            return  # the history has this cut
        generation = state.generation + 1
        history = (
            state.history.after(generation, offset)
            if is_known
            else CutHistory(generation, generation)
        )
        self.write(CUT, CutState(generation, state.intent, history))

    def finish_cut(self) -> None:
        """
        Remove the intent: the bytes above the cut are zero on disk (A2, A3).
        """
        self.write(CUT, replace(self.read(CUT), intent=None))

    def mark_clean(self, mark: CleanMark) -> None:
        """
        Store the clean mark: all is on disk and nothing will be written (A9).

        Raises:
            InvalidError: a cut is not finished.
        """
        intent = self.read(CUT).intent
        if intent is not None:
            raise InvalidError(
                f"the cut at {intent} is not finished: the store is not clean",
                offset=intent,
            )
        self.write(CLEAN, mark)

    def void_clean(self) -> None:
        """
        Void the clean mark, before the first write (A9).
        """
        self.write(CLEAN, None)

    def store_fingerprint(self, fingerprint: StoreFingerprint) -> None:
        """
        Store the present fingerprint: of the files that another program would change
            (A7).
        """
        self.write(FINGERPRINT, fingerprint)

    def intend_export(self, name: str, content: bytes | None) -> None:
        """
        Store the digest of the next content of a file; ``None``: it is removed (A7).
        """
        exports = self.read(EXPORTS)
        if not exports.is_current(name, content):
            self.write(EXPORTS, exports.intend(name, content))

    def settle_export(self, name: str) -> None:
        """
        The file has durably the content that was intended last.
        """
        self.write(EXPORTS, self.read(EXPORTS).settle(name))
