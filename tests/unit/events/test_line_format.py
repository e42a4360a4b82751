"""
The lines of a service, for people and for programs.
"""

from __future__ import annotations

import json

from pystore.events.event import json_line
from pystore.events.line_format import LineFormat, event_line, said_line
from pystore.events.store_events import LogCut

AT_MS = 1_700_000_000_123
CUT = LogCut(path="/s", time_ms=AT_MS, offset=5, bytes_cut=7, reason="why")


def test_a_text_line_has_time_level_and_subject() -> None:
    """
    Without the time for a reader that adds it.
    """
    line = "warning pystore: /s: cut 7 bytes from offset 5 on: why"

    assert f"2023-11-14T22:13:20.123Z {line}" == event_line(CUT, LineFormat.TEXT)
    assert line == event_line(CUT, LineFormat.UNTIMED)
    assert "warning pystore: hello" == said_line("hello", AT_MS, LineFormat.UNTIMED)


def test_a_json_line_names_its_event_and_null_if_there_is_none() -> None:
    """
    So a program reads each line in the same way.
    """
    assert json_line(CUT) == event_line(CUT, LineFormat.JSON)
    assert json.loads(said_line("hello", AT_MS, LineFormat.JSON)) == {
        "time": "2023-11-14T22:13:20.123Z",
        "level": "warning",
        "event": None,
        "text": "hello",
    }


def test_a_reason_of_a_peer_forges_no_line() -> None:
    """
    Whatever it sends, it is one line.
    """
    forged = "bad\n2023-11-14T22:13:20.123Z info pystore: all is well\r"

    for form in LineFormat:
        assert 1 == len(said_line(forged, AT_MS, form).splitlines())
