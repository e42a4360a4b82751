"""
Each of RocketMQ's tests and holes has a row, and each row a test that is there.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "rocketmq-tests.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (RMQ-[TR]\d+) \|(.*)\| ([^|]+) \|$", PAGE, re.M)
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")

HOLES = {
    "identities": (9, 15, 16, 17, 28, 36, 44),
    "elections": (50, 62, 63, 70, 71, 72, 73, 80),
    "changes of the set": (110, 111, 112),
    "the controller": (226, 227, 232, 234, 235, 236, 237, 244, 254, 255, 256),
}
"""What RocketMQ 5 does wrong, by the part of it that is described."""


def test_each_number_has_one_row() -> None:
    """
    All of RocketMQ's tests up to RMQ-T60, and all holes of the controller's parts.
    """
    holes = [f"RMQ-R{number}" for some in HOLES.values() for number in some]

    assert [*(f"RMQ-T{number}" for number in range(1, 61)), *holes] == [
        number for number, _, _ in ROWS
    ]


@pytest.mark.parametrize(("number", "what", "here"), ROWS, ids=lambda one: one[:8])
def test_a_row_names_existing_tests(number: str, what: str, here: str) -> None:
    """
    Or it has the reason why there is none; a defect always has a test.
    """
    named = NAMED.findall(here)
    missing = [
        f"{path}::{name}"
        for path, name in named
        if f"def {name}(" not in (TESTS / path).read_text(encoding="utf-8")
    ]

    assert [] == missing
    assert here.count(".py") == len(named), "a name that is not file::test"
    assert named or (number.startswith("RMQ-T") and "`" not in here), what
