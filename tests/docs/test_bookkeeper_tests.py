"""
The page for readers of BookKeeper: each of its tests has a row, and each row a test
that is there, a rule, or a reason.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
PAGE = (ROOT / "docs" / "autorecovery-bookkeeper.md").read_text(encoding="utf-8")
LINES, LISTS = PAGE.split("## BookKeeper's tests")
ROWS = re.findall(r"^\| (`[^|]+) \| ([^|]+) \| ([^|]+) \|$", LISTS, re.M)
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
VERDICTS = ("kept", "changed", "not applicable", "open")


def missing(text: str) -> list[str]:
    """
    Returns the named tests that do not exist.
    """
    return [
        f"{path}::{name}"
        for path, name in NAMED.findall(text)
        if f"def {name}(" not in (TESTS / path).read_text(encoding="utf-8")
    ]


def test_each_line_of_the_mapping_names_a_test_that_is_there() -> None:
    """
    And files that are there; or it says that the part is open.
    """
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]*) \| ([^|]+) \|$", LINES, re.M)
    rows = [one for one in rows if one[0] not in ("BookKeeper", "---")]
    assert len(rows) > 15
    for what, _, files, tests in rows:
        assert [] == missing(tests), what
        assert NAMED.search(tests) or "*open*" in tests, what
        assert all((ROOT / one).exists() for one in re.findall(r"`([^`]+)`", files))


@pytest.mark.parametrize(("names", "verdict", "here"), ROWS, ids=lambda one: one[:40])
def test_each_test_of_bookkeeper_is_kept_changed_or_not_applicable(
    names: str, verdict: str, here: str
) -> None:
    """
    One that is kept names a test; one that is open a rule or a name.
    """
    assert verdict in VERDICTS, names
    assert [] == missing(here), names
    assert here.count(".py") == len(NAMED.findall(here)), (
        "a name that is not file::test"
    )
    if verdict == "kept":
        assert NAMED.search(here), names
    if verdict == "open":
        assert re.search(r"AR-R\d+|`[^`]+`", here), names


def test_no_test_of_bookkeeper_has_two_rows() -> None:
    """
    A test belongs to one class; the same name may be in several.
    """
    for part in LISTS.split("\n### ")[1:]:
        names = re.findall(r"^\| `([^|]+?)` \|", part, re.M)
        assert len(names) == len(set(names)), part.splitlines()[0]
