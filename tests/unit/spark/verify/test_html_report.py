"""
A round as one HTML page.
"""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

from pystore.spark.verify.html_report import COLUMNS_MAX, render_report
from pystore.spark.verify.run import VerifyRun
from pystore.spark.verify.verdicts import SegmentVerdict, Verdict
from pystore.text import size_text


def _render(*verdicts: SegmentVerdict) -> str:
    stores = sorted({one.store for one in verdicts})
    return render_report(VerifyRun(1, list(verdicts), stores, 2.0, 0.0))


class _Balance(HTMLParser):
    """
    Checks that every opened element is closed.
    """

    VOID = frozenset({"meta", "br", "link"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()


def _cells(page: str) -> list[str]:
    return re.findall(r'<div class="cell ([A-Z]+(?: bad)?)"', page)


def test_a_page_is_complete_html_without_external_parts() -> None:
    """
    It has no script and no external address.
    """
    page = _render(SegmentVerdict("g", "/a", 0, Verdict.OK))
    parser = _Balance()
    parser.feed(page)

    assert [] == parser.open
    assert not re.search(r"<script|https?:|url\(|@import|src=", page)
    assert "prefers-color-scheme: dark" in page


def test_every_segment_of_every_store_is_a_cell() -> None:
    """
    There is a line for each store, sorted by name.
    """
    page = _render(
        SegmentVerdict("g", "/b", 0, Verdict.CORRUPT, is_bad=True),
        SegmentVerdict("g", "/a", 0, Verdict.OK),
        SegmentVerdict("g", "/a", 100, Verdict.UNSEALED),
        SegmentVerdict("g", "/b", 100, Verdict.ABSENT, is_bad=True),
    )

    assert ["OK", "UNSEALED", "CORRUPT bad", "ABSENT bad"] == _cells(page)


def test_of_many_segments_in_a_column_the_worst_is_shown() -> None:
    """
    One bad segment among thousands is visible.
    """
    many = [
        SegmentVerdict("g", "/a", base, Verdict.OK) for base in range(10 * COLUMNS_MAX)
    ]
    many[777] = SegmentVerdict("g", "/a", 777, Verdict.CORRUPT, is_bad=True)

    cells = _cells(_render(*many))

    assert COLUMNS_MAX == len(cells)
    assert "CORRUPT bad" == cells[77]
    assert {"OK"} == set(cells[:77] + cells[78:])


def test_names_and_evidence_cannot_break_the_page() -> None:
    """
    A folder may have any name.
    """
    page = _render(
        SegmentVerdict(
            "<g>", '/"<script>', 0, Verdict.CORRUPT, is_bad=True, evidence=["<b>&"]
        )
    )

    assert "<script>" not in page
    assert "&lt;b&gt;&amp;" in page


def test_the_headline_says_whether_an_operator_has_to_act() -> None:
    """
    The headline is the first text of the page.
    """
    assert "1 finding: an operator has to act" in _render(
        SegmentVerdict("g", "/a", 0, Verdict.CORRUPT, is_bad=True)
    )
    assert "some segments could not be checked" in _render(
        SegmentVerdict("g", "/a", 0, Verdict.UNKNOWN)
    )
    assert "No segment is damaged" in _render()


def test_bytes_that_no_checksum_covers_are_a_figure() -> None:
    """
    A page without such bytes has none.
    """
    covered = SegmentVerdict("g", "/a", 0, Verdict.OK)
    name = "<dt>without a checksum</dt>"

    assert name not in _render(covered)
    page = _render(replace(covered, uncovered_bytes=2048))
    assert f"{name}<dd>{size_text(2048)}</dd>" in page


def test_a_bad_store_has_a_command_that_shows_what_heals_it() -> None:
    """
    Its path is quoted for a shell; a store without a bad row has none.
    """
    page = _render(
        SegmentVerdict("g", "/a b", 0, Verdict.CORRUPT, is_bad=True),
        SegmentVerdict("g", "/c", 0, Verdict.UNKNOWN),
    )

    assert ["&#x27;/a b&#x27;"] == re.findall(
        r"<code>pystore doctor (.*?)</code>", page
    )


def test_a_line_begins_with_the_verdict_on_the_store() -> None:
    """
    The worst of its rows. A store that is gone has no segment, and has a line.
    """
    page = _render(
        SegmentVerdict("g", "/a", 0, Verdict.OK),
        SegmentVerdict("g", "/a", 100, Verdict.CORRUPT, is_bad=True),
        SegmentVerdict("g", "/b", 0, Verdict.OK),
        SegmentVerdict("g", "/c", None, Verdict.ABSENT, is_bad=True),
    )

    whole = re.findall(r'<div class="whole ([A-Z]+(?: bad)?)" title="([^"]*)"', page)
    assert [
        ("CORRUPT bad", "100: CORRUPT (the worst of 2)"),
        ("OK", "0: OK"),
        ("ABSENT bad", "the store: ABSENT"),
    ] == whole
    assert page.count('<span class="word"><i class="ABSENT bad"></i>ABSENT') == 2


def test_a_row_about_queues_hides_no_row_about_the_segment() -> None:
    """
    Both have the same segment: the worse one is shown.
    """
    page = _render(
        SegmentVerdict("g", "/a", 0, Verdict.CORRUPT, is_bad=True),
        SegmentVerdict("g", "/a", 0, Verdict.UNKNOWN, name="consumequeue"),
    )

    assert ["CORRUPT bad"] == _cells(page)
