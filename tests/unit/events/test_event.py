"""
The line of an event for a program.
"""

from __future__ import annotations

import json

from pystore.events.event import event_fields, json_line
from pystore.events.store_events import LogCut, StoreRecovered


def test_a_json_line_has_time_level_name_sentence_and_fields() -> None:
    """
    The names are stable: programs read them.
    """
    event = LogCut(
        path="/s", time_ms=1_700_000_000_123, offset=5, bytes_cut=7, reason="é"
    )

    assert json.loads(json_line(event)) == {
        "time": "2023-11-14T22:13:20.123Z",
        "level": "warning",
        "event": "LogCut",
        "subject": "/s",
        "text": "cut 7 bytes from offset 5 on: é",
        "path": "/s",
        "offset": 5,
        "bytesCut": 7,
        "reason": "é",
    }
    assert "\n" not in json_line(event)


def test_tuples_become_arrays() -> None:
    """
    Whatever an event holds, JSON can hold.
    """
    event = StoreRecovered(
        path="/s", time_ms=0, end_offset=1, scanned_bytes=2, records=3, reasons=("a",)
    )

    assert event_fields(event)["reasons"] == ("a",)
    assert json.loads(json_line(event))["reasons"] == ["a"]
