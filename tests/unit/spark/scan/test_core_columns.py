"""
Columns made by the core equal those made without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pystore.bindings.row import RECORD_DTYPE
from pystore.errors import InvalidError
from pystore.message.properties import KEYS, TAGS, UNIQUE_KEY, parse_properties
from pystore.spark.scan.core_columns import CoreColumns
from pystore.spark.scan.python_columns import PythonColumns

ALL = frozenset({"properties", "keys", "tags", "uniqKey"})
NAMES = (KEYS, TAGS, UNIQUE_KEY)
HEAD, BASE = 72, 1 << 40

# Parts of property strings, valid and broken.
PIECES = st.sampled_from(
    [
        *(b"KEYS", b"TAGS", b"UNIQ_KEY", b"KEYS\x01", b"TAGS\x01a\x02", b"k", b"v"),
        *(b"\x01", b"\x02", b"\x00", b"\x03", b"\x7f", b"  ", b"x" * 15, b"y" * 33),
    ]
)
TEXTS = st.lists(PIECES | st.just("ä€😀".encode()), max_size=14).map(b"".join)
STRINGS = st.lists(TEXTS, min_size=1, max_size=8)
BROKEN = st.sampled_from([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"])
HOSTS = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)


@dataclass(frozen=True)
class Record:
    """
    The parts of a record that its columns need.
    """

    properties: bytes = b""
    body: bytes = b""
    born: bytes = bytes(8)
    store: bytes = bytes(8)
    gap: int = 0

    def bytes(self) -> bytes:
        """
        The bytes that are read, and a gap behind them.
        """
        head = b"\xee" * 48 + self.born + b"\xee" * 8 + self.store + b"\xee" * 16
        return head + self.body + b"\xee\x02" + self.properties + b"\xee" * self.gap

    def fill(self, row: Any, offset: int) -> None:
        """
        Fills the row of the record.
        """
        wide = 0x10 * (len(self.born) == 20) | 0x20 * (len(self.store) == 20)
        body_at = HEAD + len(self.born) + len(self.store)
        row["offset"], row["sys_flag"] = offset, wide
        row["body_at"], row["body_size"] = body_at, len(self.body)
        row["properties_at"] = body_at + len(self.body) + 2
        row["properties_size"] = len(self.properties)
        row["size"] = row["properties_at"] + len(self.properties)


RECORDS = st.builds(
    Record, TEXTS, st.binary(max_size=80), HOSTS, HOSTS, st.integers(0, 9)
)


def laid_out(records: list[Record]) -> tuple[NDArray[Any], memoryview]:
    """
    The rows of adjacent records, and their bytes.
    """
    rows, data = np.zeros(len(records), RECORD_DTYPE), bytearray()
    for row, record in zip(rows, records, strict=True):
        record.fill(row, BASE + len(data))
        data += record.bytes()
    end = int(rows[-1]["offset"] + rows[-1]["size"]) - BASE
    return rows, memoryview(bytes(data[:end]))


def shown(columns: PythonColumns) -> dict[str, pa.Array]:
    """
    Every array, after a full validation.
    """
    arrays = {
        "body": columns.bodies(),
        "bornHost": columns.born_hosts(),
        "storeHost": columns.store_hosts(),
        "msgId": columns.ids(),
        "properties": columns.maps(),
        **{name: columns.named(name) for name in NAMES},
    }
    for array in arrays.values():
        array.validate(full=True)
    return arrays


def strings(raws: list[bytes]) -> tuple[NDArray[Any], memoryview]:
    """
    Records that differ only in their property strings.
    """
    return laid_out([Record(raw) for raw in raws])


@given(st.lists(RECORDS, min_size=1, max_size=9), st.data())
def test_all_columns_are_those_made_without_the_core(
    records: list[Record], data: st.DataObject
) -> None:
    """
    IPv4 and IPv6 hosts, gaps between the records, and rows left out.
    """
    rows, memory = laid_out(records)
    some = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    chosen = rows[np.array(some)] if any(some) else rows
    first, last = chosen[0], chosen[-1]
    start = int(first["offset"]) - BASE
    memory = memory[start : int(last["offset"] + last["size"]) - BASE]

    assert shown(PythonColumns(chosen, memory, ALL)) == shown(
        CoreColumns(chosen, memory, ALL)
    )


@given(STRINGS)
@example([b"", b"k\x01v\x02", b"k\x01v\x02k\x01w\x02", b"k\x01\x02k\x01v"])
@example([b"a\x01\x01\x02", b"\x01\x01\x01\x02", b"\x02\x02a\x01b\x01c"])
@example([b"a\x01b\x02" * 7 + b"c\x01d", b"\x00a\x01b\x00\x02"])
def test_properties_are_those_of_the_parser(raws: list[bytes]) -> None:
    """
    In its order, with repeated names and broken entries.
    """
    wanted = [parse_properties(raw) for raw in raws]

    found = CoreColumns(*strings(raws), ALL)

    assert wanted == [dict(one) for one in found.maps().to_pylist()]
    for name in NAMES:
        assert [one.get(name) for one in wanted] == found.named(name).to_pylist()


@given(STRINGS, TEXTS, BROKEN, TEXTS, st.integers(0))
def test_invalid_utf_8_is_replaced_as_without_the_core(
    raws: list[bytes], before: bytes, broken: bytes, behind: bytes, at: int
) -> None:
    """
    In one record of several, anywhere in its string.
    """
    raws.insert(at % (len(raws) + 1), before + broken + behind)
    rows, data = strings(raws)

    assert shown(PythonColumns(rows, data, ALL)) == shown(CoreColumns(rows, data, ALL))


@pytest.mark.parametrize("kinds", [1, 7, 31, 32, 33, 34, 40, 1000, 8191])
def test_the_last_entry_of_a_name_wins_among_many(kinds: int) -> None:
    """
    There are as many names as a string holds, so names are not compared in pairs.
    """
    entries = [b"%x\x01%x\x02" % (number % kinds, number) for number in range(8192)]
    raws = [b"".join(entries)[:32767], b"".join(entries)[:500], b"KEYS\x01k"]
    rows, data = strings(raws)

    found = CoreColumns(rows, data, ALL)

    assert PythonColumns(rows, data, ALL).maps() == found.maps()
    assert [list(parse_properties(raws[2]).items())] == found.maps()[2:].to_pylist()


def test_a_batch_takes_at_most_twice_the_memory_of_its_values() -> None:
    """
    Unused memory is given back.
    """
    rows, data = laid_out([Record(b"KEYS\x01" + b"k" * 400, bytes(1000))] * 2000)

    arrays = shown(CoreColumns(rows, data, ALL))

    held = sum(array.get_total_buffer_size() for array in arrays.values())
    plain = shown(PythonColumns(rows, data, ALL))
    assert 2 * sum(array.nbytes for array in plain.values()) > held


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("offset", BASE - 1),
        ("offset", BASE + 300),
        ("size", 2**32 - 1),
        ("body_size", 2**32 - 1),
        ("body_at", 2**32 - 1),
        ("properties_size", 40000),
        ("properties_at", 2**32 - 9),
        ("size", 80),
    ],
)
def test_a_row_outside_its_bytes_is_refused(field: str, value: int) -> None:
    """
    Nothing outside the buffer is read.
    """
    rows, data = laid_out([Record(b"k\x01v", b"body"), Record(b"k\x01v", b"body")])
    rows[1][field] = value

    with pytest.raises(InvalidError, match="does not lie in the"):
        CoreColumns(rows, data, ALL)
