"""
The place of each latest record.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from lib.spark.compaction import CHOICE

from pystore.errors import InvalidError
from pystore.spark.compact.counts import CompactionDamage, QueueCount, queue_hash
from pystore.spark.compact.layout import (
    PLACES_SCHEMA,
    QueueLayout,
    lay_out,
    parse_layout,
)
from pystore.spark.compact.plan import CompactionPlan
from pystore.spark.compact.scan import NOTE, RECORD, SCANNED_SCHEMA

PLAN = CompactionPlan("/store", 10000, (20000, 30000, 40000), 50000, "", -1, CHOICE)


def count(topic: str, first: int, offset: int, records: int = 10) -> QueueCount:
    """
    The count of queue 0 in one segment.
    """
    last = first + records - 1
    return QueueCount(topic, 0, records, 999, 0, 0, first, last, offset, offset + 500)


def note(one: QueueCount | CompactionDamage, offset: int) -> dict[str, Any]:
    """
    The row of a note.
    """
    queue = queue_hash(one.topic, 0) if isinstance(one, QueueCount) else 0
    return {"queue": queue, "kind": NOTE, "key": one.pack(), "offset": offset}


def record(topic: str, offset: int, size: int, *, dead: bool = False) -> dict[str, Any]:
    """
    The row of a record.
    """
    queue = queue_hash(topic, 0)
    value = size * 2 + dead
    return {"queue": queue, "kind": RECORD, "offset": offset, "value": value}


def laid_out(
    rows: list[dict[str, Any]], step: int = 3, *, with_records: bool = True
) -> tuple[list[dict[str, Any]], list[QueueLayout | CompactionDamage]]:
    """
    The places of records, and the layouts of the queues.
    """
    ordered = sorted(rows, key=lambda row: (row["queue"], row["kind"], row["offset"]))
    for row in ordered:
        row.setdefault("key", None)
        row.setdefault("value", 0)
    table = pa.Table.from_pylist(ordered, SCANNED_SCHEMA)
    found = []
    for batch in lay_out(table.to_batches(step), PLAN, with_records=with_records):
        assert PLACES_SCHEMA == batch.schema
        found += batch.to_pylist()
    texts = [parse_layout(row["text"]) for row in found if row["kind"] == NOTE]
    return [row for row in found if row["kind"] == RECORD], texts


@pytest.mark.parametrize("step", [1, 2, 3, 100])
def test_records_follow_each_other_in_the_order_of_the_log(step: int) -> None:
    """
    Each queue has its own log, for any size of the batches.
    """
    rows = [note(count(topic, 0, 20000), 20000) for topic in "AB"]
    rows += [record("A", 20000 + 100 * n, 100 + n) for n in range(5)]
    rows += [record("B", 30000 + 100 * n, 200) for n in range(3)]

    places, layouts = laid_out(rows, step)

    of_a = [row for row in places if row["queue"] == queue_hash("A", 0)]
    of_b = [row for row in places if row["queue"] == queue_hash("B", 0)]
    assert [0, 100, 201, 303, 406] == [row["place"] for row in of_a]
    assert [0, 200, 400] == [row["place"] for row in of_b]
    assert list(range(5)) == [row["entry"] for row in of_a]
    assert {0} == {row["file"] for row in places}
    assert {0} == {row["segment"] for row in of_a}
    assert {1} == {row["segment"] for row in of_b}
    assert {"A/0": 510, "B/0": 600} == {
        one.folder: one.size_bytes for one in layouts if isinstance(one, QueueLayout)
    }


@pytest.mark.parametrize("step", [1, 2, 100])
def test_tombstones_are_removed_except_the_newest_record(step: int) -> None:
    """
    One of two queues ends with a tombstone.
    """
    rows = [note(count(topic, 0, 20000), 20000) for topic in "AB"]
    for topic in "AB":
        rows += [record(topic, 20000 + n, 100, dead=n % 2 == 0) for n in range(4)]
    rows.append(record("A", 20004, 100, dead=True))

    places, layouts = laid_out(rows, step)

    of_a = [row["offset"] for row in places if row["queue"] == queue_hash("A", 0)]
    of_b = [row["offset"] for row in places if row["queue"] == queue_hash("B", 0)]
    assert ([20001, 20003, 20004], [20001, 20003]) == (of_a, of_b)
    kept = {one.folder: one for one in layouts if isinstance(one, QueueLayout)}
    assert (5, 3, 1) == (kept["A/0"].keys, kept["A/0"].records, kept["A/0"].tombstones)
    assert (4, 2, 0) == (kept["B/0"].keys, kept["B/0"].records, kept["B/0"].tombstones)


def test_a_survey_has_the_same_numbers_without_the_places() -> None:
    """
    So no unneeded row is kept.
    """
    rows = [note(count("A", 0, 20000), 20000)]
    rows += [record("A", 20000 + 100 * n, 100) for n in range(90)]

    _, layouts = laid_out(rows)
    places, same = laid_out(rows, with_records=False)

    assert [] == places
    assert layouts == same
    (one,) = layouts
    assert isinstance(one, QueueLayout)
    assert parse_layout(one.text()) == one
    assert 90 == sum(entries for _, _, entries in one.files) == one.records
    assert len(one.files) > 1


def test_counts_of_several_segments_are_added() -> None:
    """
    In the order of the segments; a queue without keys is counted, too.
    """
    rows = [
        note(count("A", 10, 31000), 30000),
        note(count("A", 0, 20000), 20000),
        note(count("A", 25, 41000, 3), 40000),
    ]

    _, (layout,) = laid_out(rows)

    assert isinstance(layout, QueueLayout)
    assert 23 == layout.count.records
    assert (0, 27) == (layout.count.first_queue_offset, layout.count.last_queue_offset)
    assert () == layout.files


def test_queue_offsets_that_do_not_rise_are_damage() -> None:
    """
    From one segment to the next one.
    """
    rows = [note(count("A", 5, 20000), 20000), note(count("A", 0, 31000), 30000)]
    rows.append(record("A", 31000, 100))

    _, (damage,) = laid_out(rows)

    assert isinstance(damage, CompactionDamage)
    assert ("/store/commitlog/00000000000000030000", 31000) == (
        damage.path,
        damage.offset,
    )
    assert (
        "queue offset 0 of A, queue 0, but an earlier record has queue offset 14"
        in damage.text
    )


def test_damage_is_passed_on() -> None:
    """
    It is not changed.
    """
    damage = CompactionDamage("/store/commitlog/0", 7, "torn")

    assert [damage] == laid_out([note(damage, 20000)])[1]


def test_two_queues_with_the_same_hash_are_an_error() -> None:
    """
    This hardly happens, and never gives a wrong result.
    """
    rows = [note(count("A", 0, 20000), 20000), note(count("B", 50, 30000), 30000)]
    rows[1]["queue"] = rows[0]["queue"]

    _, (damage,) = laid_out(rows)

    assert isinstance(damage, CompactionDamage)
    assert "B, queue 0 and A, queue 0 have the same hash" == damage.text


def test_a_record_larger_than_a_file_is_an_error() -> None:
    """
    A broker could not store it either.
    """
    with pytest.raises(InvalidError, match="not fit into a file"):
        laid_out([record("A", 20000, CHOICE.sizes.log_bytes)])


def test_no_rows_have_no_layout() -> None:
    """
    There are no places and no queues.
    """
    assert ([], []) == laid_out([])
