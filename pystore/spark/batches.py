"""
Rows of a scan and the bytes that they point into, as Arrow record batches.

Every column is made for all rows at once. What is text is gathered from the
mapped segment; what is a number is a column of the rows already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pystore.hosts import IPV4_SIZE, IPV6_SIZE
from pystore.properties import KEYS, TAGS, UNIQUE_KEY
from pystore.spark.addresses import address_texts, message_ids
from pystore.spark.columns import BODY, DAMAGE, Column
from pystore.spark.gathering import gather, texts
from pystore.spark.property_maps import PropertyMaps, parse_property_maps
from pystore.spark.split import Damaged, Split

__all__ = ["Batches"]

_TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "binary": pa.binary(),
}
_NUMBERS = {
    "offset": "offset",
    "size": "size",
    "queueId": "queue_id",
    "queueOffset": "queue_offset",
    "tagsCode": "tags_code",
    "flag": "flag",
    "sysFlag": "sys_flag",
    "reconsumeTimes": "reconsume_times",
    "preparedTransactionOffset": "prepared_offset",
    "bodyCRC": "body_crc",
    "bodyLength": "body_size",
}
_ERRORS = "surrogateescape"  # how the log names what is no UTF-8
_MAGICS = np.array([0, 0xDAA320A7, 0xDAA320AB], np.int64)
_BORN_IPV6, _STORE_IPV6 = 0x10, 0x20
_BORN_HOST_AT = 48
_MS_MAX = 2**63 // 1000 - 1


class Batches:
    """
    Makes the record batches of one split.

    Args:
        split: whose rows come.
        columns: wanted, in this order.
        topic: names a topic id.
    """

    def __init__(
        self, split: Split, columns: Sequence[Column], topic: Callable[[int], str]
    ) -> None:
        self._split = split
        self._columns = columns
        self._topic = topic
        fields = [pa.field(one.name, _TYPES[one.type]) for one in columns]
        self.schema = pa.schema(fields)

    def of(self, rows: NDArray[Any], data: memoryview | None) -> pa.RecordBatch:
        """
        Returns one batch.

        Args:
            rows: of ``RECORD_DTYPE``, ascending.
            data: from the first row's offset to the last one's end; ``None`` if
                no column needs the bytes of a record.
        """
        source = _Source(rows, data)
        arrays = [self._array(column.name, source) for column in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def of_damage(self, damaged: Damaged) -> pa.RecordBatch:
        """
        Returns a batch of one row: where the damage is, and what.
        """
        known = {
            "store": self._split.store,
            "segment": self._split.base,
            "offset": damaged.offset,
            "size": min(damaged.size, 2**31 - 1),
            DAMAGE: damaged.text,
        }
        return pa.RecordBatch.from_pylist([known], schema=self.schema)

    def _array(self, name: str, source: _Source) -> pa.Array:
        rows = source.rows
        kind = self.schema.field(name).type
        if name in _NUMBERS:
            return pa.array(rows[_NUMBERS[name]].astype(kind.to_pandas_dtype()))
        if name in _MADE:
            return _MADE[name](source)
        if name == "topic":
            return self._topics(rows["topic_id"])
        if name == "epoch":
            return self._epochs(rows["offset"])
        same = {"store": self._split.store, "segment": self._split.base, DAMAGE: None}
        return pa.repeat(pa.scalar(same[name], kind), len(rows))

    def _topics(self, ids: NDArray[Any]) -> pa.Array:
        known, places = np.unique(ids, return_inverse=True)
        names = [self._topic(int(one)).encode("utf-8", _ERRORS) for one in known]
        return texts(pa.array(names, pa.binary())).take(pa.array(places))

    def _epochs(self, offsets: NDArray[Any]) -> pa.Array:
        ranges = np.array(self._split.epochs, np.int64).reshape(-1, 3)
        at = np.searchsorted(ranges[:, 1], offsets.astype(np.int64), "right") - 1
        if not len(ranges):
            return pa.nulls(len(offsets), pa.int64())
        unknown = (at < 0) | (offsets >= ranges[at, 2].astype(np.uint64))
        return pa.array(ranges[at, 0], mask=unknown)


class _Source:
    """
    What several columns of one batch share.
    """

    def __init__(self, rows: NDArray[Any], data: memoryview | None) -> None:
        self.rows = rows
        self.starts = (rows["offset"] - rows["offset"][0]).astype(np.int64)
        self.bytes = np.frombuffer(data or b"", np.uint8)
        self._buffer = pa.py_buffer(data or b"")
        self._properties: PropertyMaps | None = None

    def part(self, at: str, sizes: NDArray[Any]) -> pa.Array:
        """
        One field of each record.
        """
        return gather(self._buffer, self.starts + self.rows[at], sizes)

    @property
    def properties(self) -> PropertyMaps:
        if self._properties is None:
            raw = self.part("properties_at", self.rows["properties_size"])
            self._properties = parse_property_maps(raw)
        return self._properties


def _times(ms: NDArray[Any]) -> pa.Array:
    # A client may say any time; one that no timestamp can hold is null.
    is_none = (ms > _MS_MAX) | (ms < -_MS_MAX)
    micros = pa.array(np.where(is_none, 0, ms) * 1000, mask=is_none)
    return micros.cast(pa.timestamp("us", "UTC"))


def _hosts(name: str, source: _Source) -> pa.Array:
    """
    Addresses, or the message ids that hold one.
    """
    flags = source.rows["sys_flag"]
    at, is_wide = source.starts + _BORN_HOST_AT, (flags & _BORN_IPV6) != 0
    if name == "bornHost":
        return address_texts(source.bytes, at, is_wide)
    at, is_wide = (
        at + np.where(is_wide, IPV6_SIZE, IPV4_SIZE) + 8,
        (flags & _STORE_IPV6) != 0,
    )
    if name == "storeHost":
        return address_texts(source.bytes, at, is_wide)
    return message_ids(source.bytes, at, is_wide, source.rows["offset"])


_MADE: dict[str, Callable[[_Source], pa.Array]] = {
    "storeTimestamp": lambda source: _times(source.rows["store_ms"]),
    "bornTimestamp": lambda source: _times(source.rows["born_ms"]),
    "keys": lambda source: source.properties.column(KEYS),
    "tags": lambda source: source.properties.column(TAGS),
    "uniqKey": lambda source: source.properties.column(UNIQUE_KEY),
    "properties": lambda source: source.properties.maps(),
    "magic": lambda source: pa.array(_MAGICS[source.rows["version"]]),
    "bornHost": lambda source: _hosts("bornHost", source),
    "storeHost": lambda source: _hosts("storeHost", source),
    "msgId": lambda source: _hosts("msgId", source),
    BODY: lambda source: source.part("body_at", source.rows["body_size"]),
}
"""Columns that one batch's rows and bytes are enough for."""
