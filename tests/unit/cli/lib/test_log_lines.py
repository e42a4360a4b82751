"""
Lines of a service, beside a reader that takes nothing.
"""

from __future__ import annotations

import json
import os
import re
import threading

import pytest

from pystore.cli.lib.log_lines import LogLines, line_format
from pystore.events.line_format import LineFormat
from pystore.events.store_events import LogSynced, StorePoisoned


def test_dropped_lines_are_told_in_the_form_of_the_others() -> None:
    """
    A program reads them, too.
    """
    written: list[str] = []
    begins, goes_on = threading.Event(), threading.Event()

    def write(line: str) -> None:
        begins.set()
        assert goes_on.wait(20)
        written.append(line)

    lines = LogLines(LineFormat.JSON, write, lines_max=1)
    lines.say("first")
    assert begins.wait(20)
    for _ in range(3):
        lines.say("more")
    goes_on.set()
    assert lines.flush(20)

    texts = [json.loads(line)["text"] for line in written]
    told = "2 more lines were dropped: stderr is too slow"
    assert texts == ["first", "more", told]


def test_an_event_has_a_line_and_one_for_debugging_has_none() -> None:
    """
    Each second of each store would be a line.
    """
    written: list[str] = []
    lines = LogLines(LineFormat.UNTIMED, written.append)
    lines.tell(LogSynced(time_ms=0, path="/s", synced_end=1))
    lines.tell(StorePoisoned(time_ms=0, path="/s", synced_end=7))
    assert lines.flush(20)

    (line,) = written
    assert line.startswith("warning pystore: /s: a write-back failed: nothing above")


def test_the_journal_adds_the_time_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Which systemd tells with device and inode; a pipe of another program is another.
    """
    at = os.fstat(2)
    monkeypatch.setenv("JOURNAL_STREAM", f"{at.st_dev}:{at.st_ino}")
    assert LineFormat.UNTIMED is line_format("text")
    assert LineFormat.JSON is line_format("json")
    monkeypatch.setenv("JOURNAL_STREAM", f"{at.st_dev}:{at.st_ino + 1}")
    assert LineFormat.TEXT is line_format("text")


def test_a_line_has_time_level_and_program_before_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """
    On stderr, before the end of the block.
    """
    with LogLines() as lines:
        lines.say("a line")

    out, err = capsys.readouterr()
    assert "" == out
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert re.fullmatch(rf"{time} warning pystore: a line\n", err), err
