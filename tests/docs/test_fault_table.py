"""
The page of AutoRecovery's faults: each row names a test that is there, or says why
there is none.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "autorecovery-faults.md").read_text(encoding="utf-8")
ROWS = [
    row
    for row in re.findall(r"^\| ([^|]+) \| ([^|]*) ?\| ([^|]+) \|$", PAGE, re.M)
    if row[0] not in ("case", "---")
]
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


@pytest.mark.parametrize(("case", "over", "tests"), ROWS, ids=lambda one: one[:40])
def test_each_fault_has_a_test_that_is_there_or_a_reason(
    case: str, over: str, tests: str
) -> None:
    """
    Files that are named without a test are there, too.
    """
    missing = [
        f"{path}::{name}"
        for path, name in NAMED.findall(tests)
        if f"def {name}(" not in (TESTS / path).read_text(encoding="utf-8")
    ]
    assert [] == missing, case
    files = re.findall(r"`([\w/]+\.(?:c|py))`", tests)
    assert all(
        (TESTS / one).is_file() or (TESTS.parent / one).is_file() for one in files
    )
    assert NAMED.search(tests) or files or "*open*" in tests or "*not built*" in tests
    assert over or "*not built*" in tests or "*open*" in tests, case


def test_no_fault_has_two_rows() -> None:
    """
    The page is a list that is kept.
    """
    cases = [case for case, _, _ in ROWS]
    assert len(cases) > 70
    assert len(cases) == len(set(cases))
