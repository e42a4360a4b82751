"""
Makes Arrow record batches from the rows of a scan and the records' bytes.

Each column is made for all rows at once. Numbers are columns of the rows already. Texts
are made from the mapped segment, by the core if it is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pystore.message.constants import MAGIC_V1, MAGIC_V2
from pystore.message.properties import KEYS, TAGS, UNIQUE_KEY
from pystore.spark.plan.arrow_schema import schema_of
from pystore.spark.plan.schema import BODY, DAMAGE, Column
from pystore.spark.plan.split import Damaged, Split
from pystore.spark.scan.python_columns import PythonColumns

__all__ = ["BatchBuilder"]

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
_ERRORS = "surrogateescape"  # the log's form of bytes that are no UTF-8
_MAGICS = np.array([0, MAGIC_V1, MAGIC_V2], np.int64)
_MS_MAX = 2**63 // 1000 - 1


class BatchBuilder:
    """
    Makes the record batches of one split.

    Args:
        split: of the rows.
        columns: wanted, in this order.
        topic: returns the name for a topic id.
        texts: makes the columns of texts and bytes.
    """

    def __init__(
        self,
        split: Split,
        columns: Sequence[Column],
        topic: Callable[[int], str],
        texts: type[PythonColumns],
    ) -> None:
        self._split = split
        self._names = frozenset(column.name for column in columns)
        self._topic = topic
        self._texts = texts
        self._same: dict[str, pa.Array] = {}
        self.schema = schema_of(columns)

    def of(self, rows: NDArray[Any], data: memoryview | None) -> pa.RecordBatch:
        """
        Returns one batch.

        Args:
            rows: of ``RECORD_DTYPE``, ascending.
            data: from the first row's offset to the last row's end; ``None``: no
                column needs the bytes of a record.
        """
        text = None if data is None else self._texts(rows, data, self._names)
        arrays = [self._array(name, rows, text) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def of_damage(self, damaged: Damaged) -> pa.RecordBatch:
        """
        Returns a batch with one row for the damage.
        """
        known = {
            "store": self._split.store,
            "segment": self._split.base,
            "offset": damaged.offset,
            "size": min(damaged.size, 2**31 - 1),
            DAMAGE: damaged.text,
        }
        return pa.RecordBatch.from_pylist([known], schema=self.schema)

    def _array(
        self, name: str, rows: NDArray[Any], text: PythonColumns | None
    ) -> pa.Array:
        kind = self.schema.field(name).type
        if name in _NUMBERS:
            return pa.array(rows[_NUMBERS[name]].astype(kind.to_pandas_dtype()))
        if name in _ROWS_ALONE:
            return _ROWS_ALONE[name](rows)
        if name in _TEXTS and text is not None:
            return _TEXTS[name](text)
        if name == "topic":
            return self._topics(rows["topic_id"])
        if name == "epoch":
            return self._epochs(rows["offset"])
        return self._repeated(name, len(rows))

    def _repeated(self, name: str, count: int) -> pa.Array:
        """
        A column with the same value in every row: made once, then sliced.
        """
        made = self._same.get(name)
        if made is None or len(made) < count:
            known = {"store": self._split.store, "segment": self._split.base}
            value = pa.scalar(known.get(name), self.schema.field(name).type)
            self._same[name] = made = pa.repeat(value, count)
        return made[:count]

    def _topics(self, ids: NDArray[Any]) -> pa.Array:
        first = ids[0]
        if np.all(ids == first):
            return pa.repeat(self._named([first])[0], len(ids))
        # Ids count from 0, so a table of them is faster than a sort.
        counts = np.bincount(ids)
        known = np.flatnonzero(counts)
        places = np.empty(len(counts), np.int32)
        places[known] = np.arange(len(known))
        return self._named(known).take(pa.array(places[ids]))

    def _named(self, ids: Iterable[np.integer[Any]]) -> pa.Array:
        names = (self._topic(int(one)).encode("utf-8", _ERRORS) for one in ids)
        return pa.array([one.decode("utf-8", "replace") for one in names], pa.string())

    def _epochs(self, offsets: NDArray[Any]) -> pa.Array:
        ranges = np.array(self._split.epochs, np.int64).reshape(-1, 3)
        if not len(ranges):
            return pa.nulls(len(offsets), pa.int64())
        at = np.searchsorted(ranges[:, 1], offsets.astype(np.int64), "right") - 1
        unknown = (at < 0) | (offsets >= ranges[at, 2].astype(np.uint64))
        return pa.array(ranges[at, 0], mask=unknown)


def _times(ms: NDArray[Any]) -> pa.Array:
    micros = ms * 1000
    nulls = None
    if ms.max() > _MS_MAX or ms.min() < -_MS_MAX:
        # A client may send any time. A time that a timestamp cannot hold is null.
        is_known = pa.array((ms <= _MS_MAX) & (ms >= -_MS_MAX))
        nulls = is_known.buffers()[1]
    return pa.Array.from_buffers(
        pa.timestamp("us", "UTC"), len(ms), [nulls, pa.py_buffer(micros)]
    )


_ROWS_ALONE: dict[str, Callable[[NDArray[Any]], pa.Array]] = {
    "storeTimestamp": lambda rows: _times(rows["store_ms"]),
    "bornTimestamp": lambda rows: _times(rows["born_ms"]),
    "magic": lambda rows: pa.array(_MAGICS[rows["version"]]),
}
"""Columns that need only the rows."""

_TEXTS: dict[str, Callable[[PythonColumns], pa.Array]] = {
    "keys": lambda texts: texts.named(KEYS),
    "tags": lambda texts: texts.named(TAGS),
    "uniqKey": lambda texts: texts.named(UNIQUE_KEY),
    "properties": lambda texts: texts.maps(),
    "bornHost": lambda texts: texts.born_hosts(),
    "storeHost": lambda texts: texts.store_hosts(),
    "msgId": lambda texts: texts.ids(),
    BODY: lambda texts: texts.bodies(),
}
"""Columns that need the bytes of the records."""
