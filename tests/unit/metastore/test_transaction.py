"""
What changes together, without a database.
"""

from __future__ import annotations

import os

import pytest

from pystore.epochs.file import encode_epochs
from pystore.epochs.table import EpochTable
from pystore.errors import FencedError, InvalidError
from pystore.fs.boot import StorePlace
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
    STARTS,
)
from pystore.metastore.transaction import WriteTransaction
from pystore.metastore.values import (
    Bounds,
    CleanMark,
    CutState,
    QueueMark,
    QueueOffsets,
    StoreFingerprint,
)
from pystore.replicaset import Incarnation
from pystore.rocketmq.checkpoint_file import CheckpointTimes
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity


class Database:
    """A dictionary that takes what a change stores."""

    def __init__(self) -> None:
        self.stored: dict[bytes, bytes] = {}

    def change(self) -> WriteTransaction:
        """A new transaction."""
        return WriteTransaction(self.stored.get, self.rows, "db")

    def rows(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """The rows of a table."""
        return sorted(row for row in self.stored.items() if row[0].startswith(prefix))

    def commit(self, change: WriteTransaction) -> WriteTransaction:
        """Store it, and begin another one."""
        for key, value in change.records():
            if value is None:
                del self.stored[key]
            else:
                self.stored[key] = value
        return self.change()


@pytest.fixture
def database() -> Database:
    """Nothing stored."""
    return Database()


def test_only_changed_records_are_stored_and_only_at_the_end(
    database: Database,
) -> None:
    """A change reads its own writes; equal records are not written again."""
    change = database.change()
    change.write(PROMISED, 3)
    assert 3 == change.read(PROMISED)
    assert {} == database.stored
    change = database.commit(change)
    change.write(PROMISED, 3)
    assert [] == change.records()
    change.write(PROMISED, 4)
    assert [PROMISED.key] == [key for key, _ in change.records()]


def test_each_incarnation_counts_one_more_with_other_bits(database: Database) -> None:
    """B1: the counter rises with every writer, the bits are random."""
    change = database.change()
    assert Incarnation(1, b"a" * 16) == change.begin_incarnation(lambda n: b"a" * n)
    change = database.commit(change)
    assert Incarnation(2, b"b" * 16) == change.begin_incarnation(lambda n: b"b" * n)
    assert Incarnation(2, b"b" * 16) == change.read(INCARNATION)


def test_the_starts_since_the_last_registration_are_kept(database: Database) -> None:
    """
    B1: the first one and the last ones; none before controllers registered one.
    """
    change = database.change()
    begun = [change.begin_incarnation(os.urandom) for _ in range(40)]
    assert () == change.read(STARTS)
    change.note_registered(begun[-1])
    assert (begun[-1],) == change.read(STARTS)
    change = database.commit(change)
    change.note_registered(begun[-1])
    assert [] == change.records()
    later = [change.begin_incarnation(os.urandom) for _ in range(30)]
    change = database.commit(change)
    assert (begun[-1], *later[-15:]) == change.read(STARTS)


def test_a_cut_brings_everything_down_in_one_change(database: Database) -> None:
    """A3: generation, bounds, epochs, positions, clean mark and export together."""
    change = database.change()
    change.begin_epoch(1, 0)
    change.begin_epoch(4, 700)
    change.store_bounds(Bounds(900, 800, "boot", "mount"))
    change.change_marks(POSITIONS, {("t", 0): 9}, 900)
    change.mark_clean(CleanMark(900))
    change = database.commit(change)
    assert CutState(1, 500) == change.intend_cut(500)
    change = database.commit(change)
    assert CutState(1, 500) == change.read(CUT)
    assert Bounds(500, 500, "boot", "mount") == change.read(BOUNDS)
    assert EpochTable.of([(1, 0)]) == change.read(EPOCHS)
    assert QueueOffsets() == change.marks(POSITIONS)
    assert change.read(CLEAN) is None
    cut = encode_epochs(EpochTable.of([(1, 0)]))
    assert change.read(EXPORTS).is_current("epochFileCheckpoint", cut)
    assert 4 == change.read(PROMISED)


def test_a_cut_above_the_bounds_leaves_them(database: Database) -> None:
    """Bounds, positions and epochs below the cut stay as they are."""
    change = database.change()
    change.begin_epoch(1, 0)
    positions = QueueOffsets(400, (QueueMark("t", 0, 9),))
    change.store_bounds(Bounds(400, 300))
    change.write_marks(POSITIONS, positions)
    change.intend_cut(500)
    assert Bounds(400, 300) == change.read(BOUNDS)
    assert positions == change.marks(POSITIONS)
    assert [(1, 0)] == change.read(EPOCHS).pairs()


def test_a_second_cut_never_raises_an_unfinished_one(database: Database) -> None:
    """A3: the lower of the two is completed; the generation counts both."""
    change = database.change()
    change.intend_cut(500)
    assert CutState(2, 500) == change.intend_cut(600)
    assert CutState(3, 400) == change.intend_cut(400)
    change.finish_cut()
    assert CutState(3, None) == change.read(CUT)
    assert CutState(4, 600) == change.intend_cut(600)


def test_nothing_above_an_unfinished_cut_is_called_synced(database: Database) -> None:
    """Neither a bound nor a clean mark may pass over the intent."""
    change = database.change()
    change.intend_cut(500)
    with pytest.raises(InvalidError, match="synced end 501 is above the unfinished"):
        change.store_bounds(Bounds(501))
    change.store_bounds(Bounds(500))
    with pytest.raises(InvalidError, match="the cut at 500 is not finished"):
        change.mark_clean(CleanMark(500))
    change.finish_cut()
    change.store_bounds(Bounds(501))
    change.mark_clean(CleanMark(501))
    assert CleanMark(501) == change.read(CLEAN)


def test_a_cut_below_zero_is_refused(database: Database) -> None:
    """A negative offset is an error of the caller."""
    with pytest.raises(InvalidError, match="cannot cut at -1"):
        database.change().intend_cut(-1)


def test_a_promise_is_never_taken_back(database: Database) -> None:
    """B6: a lower epoch is refused, also after empty epochs have vanished."""
    change = database.change()
    change.promise(5)
    change.promise(5)
    with pytest.raises(FencedError, match="epoch 4 is below the promised epoch 5"):
        change.promise(4)
    with pytest.raises(FencedError, match="epoch 4 is below the promised epoch 5"):
        change.begin_epoch(4, 0)
    change.begin_epoch(6, 0)
    change.replace_epochs(EpochTable())
    with pytest.raises(FencedError, match="epoch 5 is below the promised epoch 6"):
        change.promise(5)


def test_an_epoch_is_stored_with_the_file_that_it_will_be(database: Database) -> None:
    """A7: until the file is written, both the old and the new content are pystore's."""
    change = database.change()
    change.begin_epoch(2, 0)
    name, content = "epochFileCheckpoint", encode_epochs(EpochTable.of([(2, 0)]))
    assert change.read(EXPORTS).is_ours(name, None)
    assert change.read(EXPORTS).is_current(name, content)
    change.settle_export(name)
    assert not change.read(EXPORTS).is_ours(name, None)


def test_an_identity_is_in_one_of_two_files(database: Database) -> None:
    """Temporary first, then settled, then the temporary file must go."""
    change = database.change()
    identity = BrokerIdentity("c", "b", 1)
    temporary = TemporaryIdentity(identity, "127.0.0.1:1;2")
    change.store_identity(temporary)
    assert temporary == change.read(IDENTITY)
    exports = change.read(EXPORTS)
    assert exports.is_current("brokerIdentity", None)
    assert exports.is_current("brokerIdentity-temp", b"c#b#1#127.0.0.1:1;2")
    change.store_identity(identity)
    exports = change.read(EXPORTS)
    assert exports.is_current("brokerIdentity", b"c#b#1")
    assert exports.is_current("brokerIdentity-temp", None)
    change.store_identity(None)
    assert change.read(EXPORTS).is_current("brokerIdentity", None)


def test_times_are_stored_with_the_checkpoint_that_they_will_be(
    database: Database,
) -> None:
    """The 4096 bytes are known before they are written."""
    change = database.change()
    times = CheckpointTimes(physic_ms=5, logics_ms=5)
    change.store_bounds(Bounds(10), times=times)
    assert change.read(EXPORTS).is_current("checkpoint", times.encode())
    change.store_bounds(Bounds(11))
    assert change.read(EXPORTS).is_current("checkpoint", times.encode())


def test_place_and_fingerprint_are_stored(database: Database) -> None:
    """A7, A15: read back as written."""
    change = database.change()
    change.store_place(StorePlace(1, 2))
    change.store_fingerprint(StoreFingerprint(((0, 1024),)))
    change = database.commit(change)
    assert StorePlace(1, 2) == change.read(PLACE)
    assert StoreFingerprint(((0, 1024),)) == change.read(FINGERPRINT)
