"""
Rows to Arrow batches, in cases that golden stores do not have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from lib.store.logs import make_root, open_log

from pystore.bindings.row import RECORD_DTYPE, Check
from pystore.core.log_reader import LogReader
from pystore.message.message import Message
from pystore.spark.plan.schema import COLUMNS, choose_columns, without_nulls
from pystore.spark.plan.split import Damaged, Split
from pystore.spark.scan.batches import BatchBuilder
from pystore.spark.scan.core_columns import CoreColumns

SPLIT = Split("/s", 0, 65536, 0, 65536, 65536, epochs=((2, 10, 20), (3, 20, 30)))


def batches(*names: str) -> BatchBuilder:
    """
    A builder of batches of these columns, with one topic.
    """
    columns = choose_columns(names, with_body=False, with_damage=False)
    return BatchBuilder(SPLIT, columns, lambda _: "T", CoreColumns)


def test_an_epoch_is_known_within_its_range_only() -> None:
    """
    Below the first range and above the last one it is unknown.
    """
    rows = np.zeros(5, RECORD_DTYPE)
    rows["offset"] = [5, 10, 19, 25, 30]

    found = batches("epoch", "store", "segment").of(rows, None).to_pydict()

    assert [None, 2, 2, 3, None] == found["epoch"]
    assert (["/s"] * 5, [0] * 5) == (found["store"], found["segment"])


def test_a_time_that_no_timestamp_holds_is_null() -> None:
    """
    A client may send any time.
    """
    rows = np.zeros(3, RECORD_DTYPE)
    rows["born_ms"] = [2**63 - 1, -(2**63), 1]

    (one, other, third) = batches("bornTimestamp").of(rows, None)[0].to_pylist()

    assert (None, None) == (one, other)
    assert 0.001 == third.timestamp()


def test_damage_is_a_row_with_its_place() -> None:
    """
    All other columns are null.
    """
    names = ("segment", "offset", "size", "topic", "properties", "damage")

    batch = batches(*names).of_damage(Damaged(7, 2**40, "what"))

    assert [(0, 7, 2**31 - 1, None, None, "what")] == [
        tuple(row.values()) for row in batch.to_pylist()
    ]


def test_ipv4_and_ipv6_hosts_are_in_one_column(tmp_path: Path) -> None:
    """
    They equal those of one record at a time.
    """
    root, records = make_root(tmp_path), []
    with open_log(root) as log:
        for number in range(6):
            born = "[::1]:1" if number % 2 else f"10.0.0.{number}:2"
            log.append(Message("T", b"b", born_host=born).form)
    with LogReader(root) as log:
        (rows,) = log.scan(0, checks=Check.TOPIC)
        records = [log.read(int(offset)) for offset in rows["offset"]]
        data = log.acquire(0, int(rows["offset"][-1] + rows["size"][-1]))
        found: dict[str, list[Any]] = (
            batches("bornHost", "storeHost", "msgId").of(rows, data).to_pydict()
        )

    assert [one.born_host for one in records] == found["bornHost"]
    assert [one.store_host for one in records] == found["storeHost"]
    assert [one.msg_id for one in records] == found["msgId"]


def test_invalid_utf_8_in_a_topic_becomes_a_replacement_character() -> None:
    """
    RocketMQ shows it this way, too.
    """
    columns = choose_columns(["topic"], with_body=False, with_damage=False)
    found = BatchBuilder(SPLIT, columns, lambda _: "a\udcff", CoreColumns)

    assert ["a\ufffd"] == found.of(np.zeros(1, RECORD_DTYPE), None)[0].to_pylist()


def test_topics_and_constant_columns_have_the_length_of_each_batch() -> None:
    """
    Batches of one topic and of several, larger and smaller ones in turn.
    """
    columns = choose_columns(["topic", "store"], with_body=False, with_damage=False)
    made = BatchBuilder(SPLIT, columns, "T{}".format, CoreColumns)
    for ids in ([7], [3, 0, 3, 7], [5, 5], [2, 1, 0]):
        rows = np.zeros(len(ids), RECORD_DTYPE)
        rows["topic_id"] = ids

        found = made.of(rows, None).to_pydict()

        assert {
            "topic": [f"T{one}" for one in ids],
            "store": ["/s"] * len(ids),
        } == found


def test_batches_and_the_table_have_the_same_schema() -> None:
    """
    Spark compares them, with nullability.
    """
    columns = without_nulls(COLUMNS.values(), with_damage=False)

    schema = BatchBuilder(SPLIT, columns, lambda _: "T", CoreColumns).schema

    assert [one.is_nullable for one in columns] == [one.nullable for one in schema]
    assert not schema.field("properties").nullable
    assert schema.field("tags").nullable
