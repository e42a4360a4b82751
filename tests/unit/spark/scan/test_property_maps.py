"""
Property strings of many records give the same as one by one.
"""

from __future__ import annotations

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from pystore.message.properties import parse_properties
from pystore.spark.scan.property_maps import parse_property_maps

# Parts of property strings, valid and broken.
PIECES = st.sampled_from(
    [b"KEYS", b"TAGS", b"k", b"\x01", b"\x02", b"v", b"\xff", "ä".encode(), b"  "]
)
STRINGS = st.lists(st.lists(PIECES, max_size=12).map(b"".join), max_size=8)


@given(STRINGS)
@example([])
@example([b"", b"k\x01v\x02", b"k\x01v\x02k\x01w\x02", b"k\x01\x02k\x01v"])
def test_maps_equal_those_of_the_parser(raws: list[bytes]) -> None:
    """
    With repeated names, broken entries and invalid UTF-8.
    """
    wanted = [parse_properties(raw) for raw in raws]

    found = parse_property_maps(pa.array(raws, pa.binary()))

    assert wanted == [dict(one) for one in found.maps().to_pylist()]
    assert [one.get("KEYS") for one in wanted] == found.column("KEYS").to_pylist()
