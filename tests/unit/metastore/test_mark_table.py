"""
One row for each queue: what is written, read back, damaged, and brought from older
pystores.
"""

from __future__ import annotations

import json
from pathlib import Path

import lmdb
import pytest
import xxhash

from pystore.errors import FormatError
from pystore.metastore.database import MetaStore
from pystore.metastore.mark_table import MarkTable, TableHead
from pystore.metastore.schema import (
    FINGERPRINT,
    FORMAT,
    HEADS,
    LENGTHS,
    POSITIONS,
)
from pystore.metastore.values import (
    QueueMark,
    QueueOffsets,
    StoreFingerprint,
    StoreFormat,
)

MARKS = (
    QueueMark("", 0, 1),
    QueueMark("a", -1, 5),
    QueueMark("a", 3, 2**62),
    QueueMark("a\0b", 1, 0),
    QueueMark("x" * 499, 1, 7),
    QueueMark("x" * 500, 1, 8),
    QueueMark("ü\udcff" * 9000, 2**31 - 1, 9),
)


@pytest.fixture
def meta(tmp_path: Path) -> Path:
    """A directory with a new database."""
    MetaStore.create(tmp_path, lambda _: None).close()
    return tmp_path


def _written(metastore: MetaStore, table: MarkTable, *marks: QueueMark) -> None:
    with metastore.change() as change:
        change.write_marks(table, QueueOffsets(9, marks))


def _marks(metastore: MetaStore, table: MarkTable) -> dict[tuple[str, int], int]:
    with metastore.view() as view:
        view.check()
        return {(t, q): value for t, q, value in view.marks(table).next_offsets}


def _raw(meta: Path) -> dict[bytes, bytes]:
    with (
        lmdb.Environment(str(meta / "lmdb"), lib_version=0) as environment,
        environment.begin() as transaction,
    ):
        return {bytes(key): bytes(value) for key, value in transaction.cursor()}


def _change_raw(meta: Path, records: dict[bytes, bytes | None]) -> None:
    with (
        lmdb.Environment(str(meta / "lmdb"), lib_version=0) as environment,
        environment.begin(write=True) as transaction,
    ):
        for key, value in records.items():
            if value is None:
                transaction.delete(key)
            else:
                transaction.put(key, value)


def _record(value: object) -> bytes:
    content = json.dumps(value).encode()
    return xxhash.xxh3_64_digest(content) + content


def test_every_name_of_a_queue_reads_back(meta: Path) -> None:
    """Topics of any size and with any bytes; negative queue ids."""
    with MetaStore.open(meta) as metastore:
        _written(metastore, POSITIONS, *MARKS)
        _written(metastore, LENGTHS, *MARKS[2:])

        assert {mark[:2]: mark.value for mark in MARKS} == _marks(metastore, POSITIONS)
        assert {mark[:2]: mark.value for mark in MARKS[2:]} == _marks(
            metastore, LENGTHS
        )
        assert 9 == metastore.read(HEADS[POSITIONS]).as_of


def test_a_change_writes_the_rows_of_changed_queues_only(meta: Path) -> None:
    """Besides them, the head of the table."""
    with MetaStore.open(meta) as metastore:
        _written(metastore, POSITIONS, *(QueueMark("t", at, 1) for at in range(500)))
        with metastore.change() as change:
            change.change_marks(POSITIONS, {("t", 7): 2, ("t", 8): 1, ("u", 0): 1}, 50)
            keys = [key for key, _ in change.records()]

        rows = [
            POSITIONS.encode(QueueMark(t, q, 0))[0] for t, q in (("t", 7), ("u", 0))
        ]
        assert sorted([HEADS[POSITIONS].key, *rows]) == keys
        found = _marks(metastore, POSITIONS)
        assert (501, 2, 1, 1) == (len(found), *(found["t", q] for q in (7, 8, 9)))
        assert 50 == metastore.read(HEADS[POSITIONS]).as_of


def test_positions_only_rise_and_lengths_may_fall(meta: Path) -> None:
    """A lower position than the stored one is out of date; a queue may be cut."""
    with MetaStore.open(meta) as metastore:
        for table in (POSITIONS, LENGTHS):
            _written(metastore, table, QueueMark("t", 0, 5))
            with metastore.change() as change:
                change.change_marks(table, {("t", 0): 3}, 7)
                assert (5 if table is POSITIONS else 3) == (
                    change.marks(table).next_offsets[0].value
                )

        assert {("t", 0): 5} == _marks(metastore, POSITIONS)
        assert {("t", 0): 3} == _marks(metastore, LENGTHS)
        assert 9 == metastore.read(HEADS[POSITIONS]).as_of


def test_a_whole_new_table_leaves_no_old_row(meta: Path) -> None:
    """As after a cut, or when another program wrote the store."""
    with MetaStore.open(meta) as metastore:
        _written(metastore, POSITIONS, *MARKS)
        with metastore.change() as change:
            change.write_marks(POSITIONS, QueueOffsets())
            change.change_marks(POSITIONS, {("n", 0): 1}, 3)

        assert {("n", 0): 1} == _marks(metastore, POSITIONS)


@pytest.mark.parametrize("how", ["missing", "changed", "exchanged", "old", "more"])
def test_a_row_that_is_missing_or_another_is_seen(meta: Path, how: str) -> None:
    """Each row proves itself with its key, and the head proves all of them."""
    with MetaStore.open(meta) as metastore:
        _written(metastore, POSITIONS, QueueMark("a", 0, 1), QueueMark("b", 0, 2))
    before = _raw(meta)
    one, other = (POSITIONS.encode(QueueMark(topic, 0, 0))[0] for topic in "ab")
    with MetaStore.open(meta) as metastore, metastore.change() as change:
        change.change_marks(POSITIONS, {("a", 0): 8})
    damage: dict[str, dict[bytes, bytes | None]] = {
        "missing": {one: None},
        "changed": {one: before[one][:-1] + b"\x09"},
        "exchanged": {one: before[other]},
        "old": {one: before[one]},
        "more": dict([POSITIONS.encode(QueueMark("c", 0, 1))]),
    }
    _change_raw(meta, damage[how])

    with (
        MetaStore.open(meta) as metastore,
        pytest.raises(FormatError, match=r"lmdb: the rows of 'positions' are damaged"),
        metastore.view() as view,
    ):
        view.check()


def _as_an_older_pystore(meta: Path) -> None:
    columns = {"a": [[0, 3], [5, 2**40]], "b": [[1], [7]]}
    _change_raw(
        meta,
        {
            FORMAT.key: FORMAT.encode(StoreFormat(1, 0)),
            b"positions": _record([77, columns]),
            b"left": _record([[[0, 1024], [1024, 1024]], columns]),
            b"lengths": None,
        },
    )


def test_the_marks_of_an_older_pystore_are_read_and_get_rows(meta: Path) -> None:
    """A reader reads both forms; an opening for writing converts the old one."""
    _as_an_older_pystore(meta)
    wanted = {("a", 0): 5, ("a", 3): 2**40, ("b", 1): 7}
    with MetaStore.open_read_only(meta) as metastore:
        assert wanted == _marks(metastore, POSITIONS) == _marks(metastore, LENGTHS)
        assert 77 == metastore.read(HEADS[POSITIONS]).as_of

    MetaStore.open(meta).close()
    assert 6 == sum(b":" in key for key in _raw(meta))
    with MetaStore.open(meta) as metastore:
        assert wanted == _marks(metastore, POSITIONS) == _marks(metastore, LENGTHS)
        head = metastore.read(HEADS[POSITIONS])
        assert (77, 3, None) == (head.as_of, head.rows, head.old)
        left = StoreFingerprint(((0, 1024), (1024, 1024)))
        assert left == metastore.read(FINGERPRINT)


def test_an_older_pystore_refuses_rows(meta: Path) -> None:
    """It would take a store with rows for one without a queue."""
    with MetaStore.open(meta) as metastore:
        assert StoreFormat.ROWS == metastore.read(FORMAT).incompatible


def test_a_head_of_no_row_is_the_default() -> None:
    """A new store needs no record of an empty table."""
    assert TableHead() == TableHead.of(0, {})
