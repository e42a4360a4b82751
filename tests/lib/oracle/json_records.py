"""
Records with any bytes in them, as rows of a scan, and their lines of JSON by Python.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from pystore.bindings.row import RECORD_DTYPE
from pystore.message.record import Record

BASE = 1 << 40
FIELDS = [name for name in RECORD_DTYPE.names or () if name != "reserved"]

PIECES = st.sampled_from(
    [
        *(b"KEYS", b"TAGS\x01a\x02", b"UNIQ_KEY\x01", b"DELAY\x01+3\x02", b"k", b"v"),
        *(b"\x01", b"\x02", b"\x00", b'"', b"\\", b"\n\t\x0b\x1f", b"\x7f", b"x" * 40),
        *("ä€😀".encode(), b"\xff", b"\xed\xa0\x80"),
    ]
)
TEXTS = st.lists(PIECES, max_size=12).map(b"".join)
TOPICS = st.just(b"SCHEDULE_TOPIC_XXXX") | TEXTS
HOSTS = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
WIDE = st.integers(-(2**63), 2**63 - 1)
NARROW = st.integers(-(2**31), 2**31 - 1)

Parts = tuple[bytes, bytes, bytes, bytes, bytes, list[int], list[int]]
RECORDS = st.tuples(
    TEXTS | st.binary(max_size=40),
    TOPICS,
    TEXTS,
    HOSTS,
    HOSTS,
    st.lists(WIDE, min_size=4, max_size=4),
    st.lists(NARROW, min_size=3, max_size=3),
)
PLAIN = (b"", b"t", b"", bytes(8), bytes(8), [0] * 4, [0] * 3)
MANY = b"".join(b"n%d\x01v\x02" % i for i in range(65))


def laid_out(records: list[Parts]) -> tuple[NDArray[Any], memoryview]:
    """
    The rows of adjacent records, and their bytes.
    """
    rows, data = np.zeros(len(records), RECORD_DTYPE), bytearray()
    for row, parts in zip(rows, records, strict=True):
        body, topic, properties, born, store, wide, narrow = parts
        body_at = 72 + len(born) + len(store)
        topic_at = body_at + len(body) + 2
        properties_at = topic_at + len(topic) + 2
        row["offset"] = BASE + len(data)
        row["sys_flag"] = 0x10 * (len(born) == 20) | 0x20 * (len(store) == 20)
        row["body_at"], row["body_size"] = body_at, len(body)
        row["topic_at"], row["topic_size"] = topic_at, len(topic)
        row["properties_at"] = properties_at
        row["properties_size"] = len(properties)
        row["size"] = properties_at + len(properties)
        numbers = ("queue_offset", "store_ms", "born_ms", "prepared_offset")
        for name, value in zip(numbers, wide, strict=True):
            row[name] = value
        for name, value in zip(
            ("queue_id", "flag", "reconsume_times"), narrow, strict=True
        ):
            row[name] = value
        head = b"\xee" * 48 + born + b"\xee" * 8 + store + b"\xee" * 16
        data += head + body + b"\xee\xee" + topic + b"\xee\xee" + properties
    return rows, memoryview(bytes(data))


def records_of(rows: NDArray[Any], data: memoryview, offset: int) -> list[Record]:
    """
    The records of the rows, without the core.
    """
    found = []
    for fields in rows[FIELDS].tolist():
        at = fields[0] - offset
        found.append(Record.of(fields, bytes(data[at : at + fields[6]])))
    return found


def expected(record: Record, *, bodies: bool) -> str:
    """
    The line of a record by Python's own encoder.
    """
    line = record.as_dict(digests=False)
    if bodies:
        try:
            line["body"] = record.body.decode()
        except UnicodeDecodeError:
            line["bodyBase64"] = base64.b64encode(record.body).decode()
    return json.dumps(line, ensure_ascii=False)
