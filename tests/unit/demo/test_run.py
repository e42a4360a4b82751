"""
Writers are killed, and their acknowledged records stay.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.demo_library import make_library

from pystore.demo.corpus import read_corpus
from pystore.demo.run import DemoReport, DemoRound, DemoSettings, WriterFailed, run_demo


def test_killed_writers_lose_no_acknowledged_record(tmp_path: Path) -> None:
    """
    A small library is appended many times, so that kills interrupt appends.
    """
    library = make_library(tmp_path / "library")
    settings = DemoSettings(
        tmp_path / "s", repeat=150, kills=2, segment_size=1 << 20, library=library
    )
    labels: list[str] = []
    report = run_demo(settings, lambda label, _done, _total: labels.append(label))

    lines = 150 * 12 * 200
    assert report.is_good
    assert lines == sum(one.records for one in report.rounds)
    assert lines == report.rounds[-1].compared
    assert report.rounds[-1].extra + lines == report.rounds[-1].verified
    assert any(one.is_killed for one in report.rounds)
    assert not report.rounds[-1].is_killed
    assert 150 * read_corpus(library).size_bytes == report.body_bytes
    assert {"writer 1: append", "writer 1: compare", "writer 1: verify"} <= set(labels)


def test_a_report_with_missing_records_is_not_good(tmp_path: Path) -> None:
    """
    A report with damage is not good either.
    """
    corpus = read_corpus(make_library(tmp_path, files=1))
    for one in (
        DemoRound(1, missing=1, verdict="whole"),
        DemoRound(1, verdict="damaged"),
    ):
        assert not DemoReport(tmp_path, corpus, 1, [one]).is_good
    assert DemoReport(tmp_path, corpus, 1, [DemoRound(1, verdict="whole")]).is_good


def test_a_writer_that_fails_without_a_kill_ends_the_demo(tmp_path: Path) -> None:
    """
    It was not killed, so there is another error.
    """
    library = make_library(tmp_path / "library", files=1)
    (tmp_path / "s").write_text("no directory")
    with pytest.raises(WriterFailed, match="writer 1 ended with code 1"):
        run_demo(
            DemoSettings(tmp_path / "s", repeat=1, library=library),
            lambda _label, _done, _total: None,
        )
