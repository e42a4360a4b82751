"""
Columns of texts and bytes, made without the core.

For executors without the wheel of pystore. The core makes equal arrays
(`pystore.spark.scan.core_columns`).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pystore.message.constants import (
    AT_BORN_HOST,
    BORN_IPV6,
    IPV4_SIZE,
    IPV6_SIZE,
    STORE_IPV6,
)
from pystore.spark.scan.gather import gather
from pystore.spark.scan.host_columns import address_texts, message_ids
from pystore.spark.scan.property_maps import PropertyMaps, parse_property_maps

__all__ = ["PythonColumns"]


class PythonColumns:
    """
    The columns of one batch, each made on its first use.

    Args:
        rows: of ``RECORD_DTYPE``, ascending, at least one.
        data: from the first row's offset to the last row's end.
        wanted: not used here; all properties are available.
    """

    def __init__(
        self, rows: NDArray[Any], data: memoryview, wanted: frozenset[str]
    ) -> None:
        del wanted
        self._rows = rows
        self._data = data

    def bodies(self) -> pa.Array:
        """
        Returns the bodies, binary.
        """
        return self._part("body")

    def born_hosts(self) -> pa.Array:
        """
        Returns ``address:port`` of each client.
        """
        at, is_wide = self._born()
        return address_texts(self._bytes, at, is_wide)

    def store_hosts(self) -> pa.Array:
        """
        Returns ``address:port`` of each broker.
        """
        at, is_wide = self._stored()
        return address_texts(self._bytes, at, is_wide)

    def ids(self) -> pa.Array:
        """
        Returns the message ids.
        """
        at, is_wide = self._stored()
        return message_ids(self._bytes, at, is_wide, self._rows["offset"])

    def maps(self) -> pa.Array:
        """
        Returns all properties of each record.
        """
        return self._properties.maps()

    def named(self, name: str) -> pa.Array:
        """
        Returns one property of each record; null: the record has none.
        """
        return self._properties.column(name)

    @cached_property
    def _properties(self) -> PropertyMaps:
        return parse_property_maps(self._part("properties"))

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        offsets = self._rows["offset"]
        starts: NDArray[np.int64] = (offsets - offsets[0]).astype(np.int64)
        return starts

    @property
    def _bytes(self) -> NDArray[np.uint8]:
        return np.frombuffer(self._data, np.uint8)

    def _part(self, name: str) -> pa.Array:
        at = self._starts + self._rows[f"{name}_at"]
        return gather(pa.py_buffer(self._data), at, self._rows[f"{name}_size"])

    def _born(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        is_wide = (self._rows["sys_flag"] & BORN_IPV6) != 0
        return self._starts + AT_BORN_HOST, is_wide

    def _stored(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        at, is_wide = self._born()
        return (
            at + np.where(is_wide, IPV6_SIZE, IPV4_SIZE) + 8,
            (self._rows["sys_flag"] & STORE_IPV6) != 0,
        )
