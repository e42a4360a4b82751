"""
What a log answers has the fields of what the core answers.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from pystore.bindings.ffi import ffi
from pystore.core import live_page, log_writer, results
from pystore.core.live_page import LiveWords
from pystore.core.results import Appended, Cursor, CutReport, Ends, StartReport


@pytest.mark.parametrize(
    ("kind", "name", "inputs"),
    [
        (Appended, "ps_appended", ()),
        (Ends, "ps_ends", ()),
        (LiveWords, "ps_live_words", ()),
        (CutReport, "ps_cut_report", ("reserved",)),
        (
            StartReport,
            "ps_start",
            (
                "end",
                "synced_end",
                "confirm_offset",
                "last_offset",
                "store_ms",
                "clean",
            ),
        ),
    ],
)
def test_fields_are_those_of_the_struct_in_its_order(
    kind: Any, name: str, inputs: tuple[str, ...]
) -> None:
    """
    A field that the core added or moved is not lost.
    """
    fields = [field for field, _ in ffi.typeof(name).fields if field not in inputs]

    assert fields == list(kind._fields)


def test_a_cursor_has_all_that_a_scan_gives_back() -> None:
    """
    It has the text as well, but not the arguments of the scan, nor what it keeps.
    """
    asked = {"limit", "checks", "seen"}
    fields = {field for field, _ in ffi.typeof("ps_cursor").fields}

    assert (fields - asked) | {"text"} == set(Cursor._fields)


@pytest.mark.parametrize(
    ("layout", "name"),
    [(results._ENDS, "ps_ends"), (live_page._WORDS, "ps_live_words")],
)
def test_layouts_are_as_long_as_their_structs(layout: struct.Struct, name: str) -> None:
    """
    The unpacked fields are the whole struct.
    """
    assert ffi.sizeof(name) == layout.size


def test_an_appended_is_taken_apart_in_the_order_of_the_struct() -> None:
    """
    Five different numbers have their names.
    """
    appended = ffi.new("ps_appended *", list(range(1, 6)))

    found = Appended._make(log_writer._unpack_appended(ffi.buffer(appended)))

    assert Appended(1, 2, 3, 4, 5) == found
    assert all(
        getattr(appended, name) == getattr(found, name) for name in found._fields
    )
