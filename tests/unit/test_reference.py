"""
The oracle reads what RocketMQ wrote as RocketMQ does.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import reference
from golden_data import GoldenStore
from reference import ReferenceLog

ALL = reference.BODY | reference.PROPERTY | reference.OFFSET

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
