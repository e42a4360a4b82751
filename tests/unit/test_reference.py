"""
The oracle reads the stores of RocketMQ as RocketMQ does, and the C scan reads them as
the oracle does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lib.oracle import reference
from lib.oracle.golden_data import STORES, VARIANTS, GoldenStore, apply_patch
from lib.oracle.reference import ReferenceLog

from pystore.bindings.ffi import RECORD_DTYPE, Check, Stop
from pystore.core.log_reader import LogReader
from pystore.errors import NotAStoreError

ALL = reference.BODY | reference.PROPERTY | reference.OFFSET

CHECKS = (
    reference.TOPIC,
    reference.BODY | reference.TAGS | reference.TOPIC,
    reference.PROPERTY | reference.NEED_PROPERTY,
    ALL | reference.PASS_COPIED | reference.TAGS | reference.TOPIC,
)

# Of the columns, those that a record line of the golden data names.
COLUMNS = {
    "offset": "offset",
    "size": "size",
    "bodyCRC": "body_crc",
    "queueId": "queue_id",
    "flag": "flag",
    "queueOffset": "queue_offset",
    "sysFlag": "sys_flag",
    "bornTimestamp": "born_ms",
    "storeTimestamp": "store_ms",
    "reconsumeTimes": "reconsume_times",
    "preparedTransactionOffset": "prepared_offset",
    "bodyLength": "body_size",
    "tagsCode": "tags_code",
}


def test_the_oracle_reads_every_golden_record_as_java_did(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    Field for field, blanks included, up to the end that Java found.
    """
    log = ReferenceLog.open(golden_root, golden_store.segment_size)
    rows: list[dict[str, int]] = []

    tail = log.scan(log.bases[0], ALL | reference.TAGS | reference.TOPIC, rows=rows)

    assert golden_store.expected["maxPhyOffset"] == tail.offset
    assert reference.STOP_ZERO == tail.stop
    assert golden_store.expected["blanks"] == [list(blank) for blank in tail.blanks]
    assert [
        {name: line[name] for name in COLUMNS} | {"topic": line["topic"]}
        for line in golden_store.records
    ] == [
        {name: row[column] for name, column in COLUMNS.items()}
        | {"topic": log.topics[row["topic_id"]].decode()}
        for row in rows
    ]


@pytest.mark.parametrize(
    ("vector", "code"),
    [("TagA", 2598919), ("TAG1", 2567159), ("Aa", 2112), ("BB", 2112)],
)
def test_the_oracle_hashes_as_java_does(vector: str, code: int) -> None:
    """
    Known hashes, from RocketMQ.
    """
    assert code == reference.hash_of(vector)


def test_the_columns_are_those_of_the_core() -> None:
    """
    Names, types and offsets are equal, and so are the reasons to stop.
    """
    retired = {"FIELDS", "STALE"}
    names = [name for name in Stop.__members__ if name not in retired]
    reasons = {name: getattr(reference, f"STOP_{name}") for name in names}

    assert RECORD_DTYPE == reference.ROW
    assert reasons == {name: Stop[name].value for name in names}


@pytest.mark.parametrize(
    ("store", "damage"),
    [*((store, {"variant": "as-left", "patch": []}) for store in STORES), *VARIANTS],
    ids=lambda value: value["variant"] if isinstance(value, dict) else value.name,
)
def test_the_core_reads_every_segment_as_the_oracle_does(
    store: GoldenStore, damage: dict[str, Any], tmp_path: Path
) -> None:
    """
    Every column of every record, and where and why the scan stops, also of what
    was damaged.
    """
    root = store.extract(tmp_path)
    apply_patch(root, damage["patch"])
    oracle = ReferenceLog.open(root, store.segment_size)
    try:
        log = LogReader(root)
    except NotAStoreError:
        # A segment that is too short cannot be opened, and Java refuses it, too.
        assert damage["result"]["loadOk"] is False
        return

    with log:
        for checks in CHECKS:
            offset = oracle.bases[0]
            while offset < oracle.bases[-1] + oracle.segment_size:
                offset = _compare(log, oracle, offset, checks)


def _compare(log: LogReader, oracle: ReferenceLog, offset: int, checks: int) -> int:
    """
    Returns the base of the segment behind the one that both scans stopped in.
    """
    scan = log.scan(offset, checks=Check(checks))
    found = np.concatenate([np.zeros(0, RECORD_DTYPE), *scan])
    expected = next(oracle.rows(offset, checks))
    tail = oracle.scan_end(offset, checks)

    if checks & reference.TOPIC:
        assert [oracle.topic(number) for number in expected["topic_id"]] == [
            log.topic(number) for number in found["topic_id"]
        ]
        found["topic_id"] = expected["topic_id"] = 0
    assert expected.tobytes() == found.tobytes()
    assert (tail.offset, tail.stop) == (scan.cursor.offset, scan.cursor.stop)
    return tail.offset - tail.offset % oracle.segment_size + oracle.segment_size
