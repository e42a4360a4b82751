"""
The catalogue of mutants fits the tree. ``make mutants`` runs them.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CATALOGUE = tomllib.loads((ROOT / "tests/mutants/mutants.toml").read_text("utf-8"))
RULES = tomllib.loads((ROOT / "tests/chaos/switched_off.toml").read_text("utf-8"))


@pytest.mark.parametrize("one", CATALOGUE["mutant"], ids=lambda one: one.get("name"))
def test_a_mutant_changes_texts_that_occur_once(one: dict[str, object]) -> None:
    """
    A header that is lost in a merge joins two mutants, and one of them is never run.
    """
    assert {"name", "file", "tests", "change"} == set(one)
    _check_changes(one)


@pytest.mark.parametrize("one", RULES["rule"], ids=lambda one: one["name"])
def test_a_rule_that_is_switched_off_changes_texts_that_occur_once(
    one: dict[str, object],
) -> None:
    """
    Chaos would look for a violation of a rule that is still there.
    """
    assert set(one) <= {"name", "file", "faults", "controllers", "change", "found_by"}
    _check_changes(one)


def _check_changes(one: dict[str, object]) -> None:
    text = (ROOT / str(one["file"])).read_text(encoding="utf-8")
    for change in one["change"]:  # type: ignore[attr-defined]
        assert {"find", "replace"} == set(change)
        assert 1 == text.count(change["find"])
        text = text.replace(change["find"], change["replace"])


def test_no_two_mutants_have_one_name() -> None:
    """
    A word on the command line chooses by name.
    """
    names = [one["name"] for one in CATALOGUE["mutant"]]

    assert len(names) == len(set(names))
