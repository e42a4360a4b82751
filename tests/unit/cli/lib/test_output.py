"""
Pairs, tables and lines: plain in a file or pipe, coloured and wrapped on a terminal.
"""

from __future__ import annotations

import io
import re
import sys

import pytest

from pystore.cli.lib.output import lines_text, pairs_text, table_text, verdict_text

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
PATH = "/data/" + "a-long-name/" * 8 + "store"


class Terminal(io.StringIO):
    """
    A stream that claims to be a terminal.
    """

    encoding = "utf-8"

    def isatty(self) -> bool:
        """
        Returns true.
        """
        return True


def use_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Makes standard output a terminal with colours, 40 columns wide.

    No fixture: pytest sets standard output once more before the test.
    """
    monkeypatch.setattr(sys, "stdout", Terminal())
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "40")


def test_pairs_and_tables_are_aligned_in_columns() -> None:
    """
    A value of several lines continues below its first line.
    """
    pairs = [("a", "1"), ("long", "2\n3")]

    assert "a     1\nlong  2\n      3" == pairs_text(pairs)
    assert "name  count\n----  -----\na         1\nb        10" == table_text(
        ("name", "count"), [("a", "1"), ("b", "10")]
    )


def test_without_a_terminal_text_is_plain_and_no_line_is_wrapped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Scripts read the text, so the environment cannot add colour. Square brackets are
    text.
    """
    monkeypatch.setenv("FORCE_COLOR", "1")
    line = "[red]word " * 100 + PATH

    assert line == lines_text([line])
    assert f"name  {line}" == pairs_text([("name", line)])
    assert "damaged" == verdict_text("damaged", is_good=False)


def test_on_a_terminal_a_verdict_is_green_or_red(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    It keeps its colour inside a line.
    """
    use_terminal(monkeypatch)
    bad = verdict_text("damaged", is_good=False)

    assert "\x1b[1;32mwhole\x1b[0m" == verdict_text("whole", is_good=True)
    assert "\x1b[1;31mdamaged\x1b[0m" == bad
    assert f"store: {bad}: 3 records" == lines_text([f"store: {bad}: 3 records"])


def test_on_a_terminal_lines_are_wrapped_between_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    A path that is longer than a line stays whole.
    """
    use_terminal(monkeypatch)
    text = _STYLE.sub("", lines_text(["word " * 9, f"in {PATH} here"]))
    pairs = _STYLE.sub("", pairs_text([("path", PATH), ("note", "word " * 9)]))

    assert ["word " * 6 + "word", "    word word", "in", f"    {PATH}"] == [
        line.rstrip() for line in text.splitlines()[:4]
    ]
    assert f"path  {PATH}" == pairs.splitlines()[0]


def test_on_a_terminal_a_table_has_a_drawn_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Its columns are the same.
    """
    use_terminal(monkeypatch)
    text = _STYLE.sub("", table_text(("name", "count"), [("b", "10")]))

    assert "name  count\n────  ─────\nb        10" == text
