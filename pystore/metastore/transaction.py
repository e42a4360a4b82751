"""
Transactions of the metastore: the records that must change together. Pure.

A `WriteTransaction` collects the records that one transaction will store. Each method
keeps a rule about several records, so that no caller can store half of it. The digest
of an export is stored together with the exported record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from pystore.epochs.file import encode_epochs
from pystore.epochs.table import EpochTable
from pystore.errors import FencedError, InvalidError
from pystore.fs.boot import StorePlace
from pystore.fs.layout import (
    CHECKPOINT,
    EPOCH_FILE,
    IDENTITY_FILE,
    TEMPORARY_IDENTITY_FILE,
)
from pystore.metastore.schema import (
    BOUNDS,
    CLEAN,
    CUT,
    EPOCHS,
    EXPORTS,
    FINGERPRINT,
    IDENTITY,
    INCARNATION,
    PLACE,
    POSITIONS,
    PROMISED,
    QUEUES,
    MetaKey,
)
from pystore.metastore.values import (
    Bounds,
    CleanMark,
    CutState,
    Identity,
    QueueOffsets,
    StoreFingerprint,
)
from pystore.replicaset import Incarnation
from pystore.rocketmq.checkpoint_file import CheckpointTimes
from pystore.rocketmq.identity_file import TemporaryIdentity

__all__ = ["ReadTransaction", "WriteTransaction"]

T = TypeVar("T")


class ReadTransaction:
    """
    The records at one moment.

    Args:
        get: the stored bytes of a key, or ``None``.
        path: of the database, for messages.
    """

    def __init__(self, get: Callable[[bytes], bytes | None], path: str) -> None:
        self._get = get
        self._path = path

    def read(self, key: MetaKey[T]) -> T:
        """
        The value of a record; its default if it was never written.

        Raises:
            FormatError: the digest of the stored bytes is wrong.
        """
        return key.decode(self._get(key.key), self._path)


class WriteTransaction(ReadTransaction):
    """
    Records with changes; nothing is stored before the transaction ends.
    """

    def __init__(self, get: Callable[[bytes], bytes | None], path: str) -> None:
        super().__init__(get, path)
        self._written: dict[str, tuple[MetaKey[Any], Any]] = {}

    def read(self, key: MetaKey[T]) -> T:
        """
        The value in this transaction.
        """
        if key.name in self._written:
            value: T = self._written[key.name][1]
            return value
        return super().read(key)

    def write(self, key: MetaKey[T], value: T) -> None:
        """
        Give a record a value. Prefer a method for this record, if there is one.
        """
        self._written[key.name] = (key, value)

    def records(self) -> list[tuple[bytes, bytes]]:
        """
        The keys and bytes to store: each key once, and only changed bytes.
        """
        encoded = [
            (key.key, key.encode(value)) for key, value in self._written.values()
        ]
        return sorted(pair for pair in encoded if self._get(pair[0]) != pair[1])

    def begin_incarnation(self, draw: Callable[[int], bytes]) -> Incarnation:
        """
        Begin an incarnation: the counter rises, the bits are new (B1).

        Args:
            draw: returns n random bytes; `os.urandom`.
        """
        incarnation = Incarnation(self.read(INCARNATION).counter + 1, draw(16))
        self.write(INCARNATION, incarnation)
        return incarnation

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
        positions: QueueOffsets | None = None,
        times: CheckpointTimes | None = None,
    ) -> None:
        """
        Store lower bounds of the log (A5).

        Args:
            bounds: the synced end and the confirm offset; ends of records.
            positions: of the queues; ``None``: unchanged.
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
        if positions is not None:
            self.write(POSITIONS, positions)
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
        state = CutState(state.generation + 1, offset)
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
        if self.read(POSITIONS).as_of > offset:
            self.write(POSITIONS, QueueOffsets())
        queues = self.read(QUEUES)
        if queues.synced_end > offset:
            self.write(QUEUES, replace(queues, synced_end=offset))
        self.replace_epochs(self.read(EPOCHS).cut_suffix(offset))
        self.void_clean()
        return state

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
