"""
The properties of many records at once, as Arrow arrays.

The rules are those of `pystore.message.properties.parse_properties`, applied to whole
arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from pystore.spark.scan.gather import texts

__all__ = ["PropertyMaps", "parse_property_maps"]

# Its functions are made at run time: type checkers do not know them.
pc: Any = pyarrow.compute


@dataclass(frozen=True)
class PropertyMaps:
    """
    The properties of records as one list of entries.

    Attributes:
        count: number of records.
        owners: index of each entry's record, ascending.
        names: of the entries.
        values: of the entries.
    """

    count: int
    owners: NDArray[np.int64]
    names: pa.Array
    values: pa.Array

    def maps(self) -> pa.Array:
        """
        Returns one map for each record.
        """
        lengths = np.bincount(self.owners, minlength=self.count)
        offsets = np.zeros(self.count + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        return pa.MapArray.from_arrays(pa.array(offsets), self.names, self.values)

    def column(self, name: str) -> pa.Array:
        """
        Returns the value of one property for each record; null: the record has none.
        """
        chosen = np.flatnonzero(
            pc.equal(self.names, name).to_numpy(zero_copy_only=False)
        )
        at = np.full(self.count, -1, np.int64)
        at[self.owners[chosen]] = chosen
        return self.values.take(pa.array(at, mask=at < 0))


def parse_property_maps(raw: pa.Array) -> PropertyMaps:
    """
    Parses property strings.

    Args:
        raw: binary, one for each record, without nulls.
    """
    count = len(raw)
    chunks = pc.split_pattern(texts(raw), "\x02")
    flat = pc.list_flatten(chunks)
    at = pc.find_substring(flat, "\x01").to_numpy(zero_copy_only=False)
    sizes = pc.binary_length(flat).to_numpy(zero_copy_only=False)
    chosen = np.flatnonzero((at > 0) & (at < sizes - 1))
    owners = (
        pc.list_parent_indices(chunks)
        .to_numpy(zero_copy_only=False)[chosen]
        .astype(np.int64)
    )
    pairs = pc.list_flatten(
        pc.split_pattern(flat.take(pa.array(chosen)), "\x01", max_splits=1)
    )
    names = pairs.take(pa.array(np.arange(0, len(pairs), 2)))
    values = pairs.take(pa.array(np.arange(1, len(pairs), 2)))
    last = _last_of_each(owners, names)
    if last is not None:
        kept = pa.array(last)
        owners, names, values = owners[last], names.take(kept), values.take(kept)
    return PropertyMaps(count, owners, names, values)


def _last_of_each(owners: NDArray[np.int64], names: pa.Array) -> NDArray[Any] | None:
    """
    The last entry of each name of a record; ``None``: no name comes twice.
    """
    codes = names.dictionary_encode()
    keys = owners * max(1, len(codes.dictionary)) + codes.indices.to_numpy(
        zero_copy_only=False
    )
    _, first = np.unique(keys[::-1], return_index=True)
    if len(first) == len(keys):
        return None
    return np.sort(len(keys) - 1 - first)
