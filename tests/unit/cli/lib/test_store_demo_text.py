"""
The report of the demo's part with one store is a table with a line for each writer.
"""

from __future__ import annotations

import json
from pathlib import Path

from lib.demo_library import make_library

from pystore.cli.lib.store_demo_text import report_json, report_text
from pystore.demo.corpus import read_corpus
from pystore.demo.run import DemoReport, DemoRound


def a_report(tmp_path: Path, **changes: object) -> DemoReport:
    """
    A report of two writers.
    """
    corpus = read_corpus(make_library(tmp_path, files=3))
    first = DemoRound(
        1,
        is_killed=True,
        records=1000,
        log_bytes=2_000_000,
        append_seconds=0.5,
        recovery_seconds=0.02,
        cut_bytes=77,
        compared=1000,
        verified=1010,
        verified_bytes=2_100_000,
        verify_seconds=0.1,
        verdict="whole",
        extra=10,
    )
    second = DemoRound(2, records=800, verdict="whole", compared=1800, verified=1810)
    for name, value in changes.items():
        setattr(second, name, value)
    return DemoReport(tmp_path / "store", corpus, 3, [first, second], 5000, 1.5)


def test_the_table_has_a_line_for_each_writer(tmp_path: Path) -> None:
    """
    No line is wider than a terminal.
    """
    text = report_text(a_report(tmp_path), keep=True)
    lines = text.splitlines()

    header = "writer records log rate cut recovery read back missing extra"
    assert header == " ".join(lines[0].split())
    assert "1 killed    1,000  2.00 MB  4.00 MB/s  77 B" in lines[2]
    assert lines[3].startswith("2 done")
    assert "1 after SIGKILL, 77 bytes cut, the slowest in 20 ms" in text
    assert str(tmp_path / "store") in text
    assert "acknowledged but missing: 0" in lines[-1]
    assert 80 >= max(len(line) for line in lines[:4])


def test_missing_records_are_reported_with_the_reason(tmp_path: Path) -> None:
    """
    The last line has the number of missing records.
    """
    report = a_report(tmp_path, missing=5, problem="offset 7: a body differs")
    lines = report_text(report, keep=False).splitlines()

    assert "acknowledged but missing: 5" in lines[-1]
    assert "writer 2: whole: offset 7: a body differs" == lines[-2]


def test_json_has_the_sums_and_every_writer(tmp_path: Path) -> None:
    """
    The numbers are those of the text.
    """
    found = report_json(a_report(tmp_path, missing=5), keep=False)

    assert (1800, 5, None) == (found["records"], found["missing"], found["store"])
    assert [77, 0] == [one["cutBytes"] for one in found["rounds"]]
    assert [True, False] == [one["isKilled"] for one in found["rounds"]]
    json.dumps(found)
