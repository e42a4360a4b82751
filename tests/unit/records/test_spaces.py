"""
Which keys are one space.
"""

from __future__ import annotations

import pytest

from pystore.records.ops import CheckVersion, Delete, Hold, Op, Put, by_key
from pystore.records.spaces import COMMON, changed_spaces, may_hold, space_of


@pytest.mark.parametrize(
    ("key", "space"),
    [
        ("a", COMMON),
        ("recovery", COMMON),
        ("controller/leader", COMMON),
        ("controller", COMMON),
        ("/a", COMMON),
        ("recovery/a", "recovery"),
        ("recovery/a/b", "recovery"),
        ("controllers/a", "controllers"),
    ],
)
def test_a_space_is_the_first_component_of_its_keys(key: str, space: str) -> None:
    """
    But what was written before there were spaces is in the common one.
    """
    assert space == space_of(key)
    for end in range(len(key) + 1):
        assert may_hold(space, key[:end])


def test_a_space_cannot_have_keys_with_the_prefix_of_another_one() -> None:
    """
    A scan need not look there.
    """
    assert not may_hold("recovery", "controller/")
    assert not may_hold("recovery", "recoveries")
    assert not may_hold("recovery", "recover/")
    assert not may_hold(COMMON, "recovery/")
    assert may_hold(COMMON, "recovery")


@pytest.mark.parametrize(
    ("ops", "spaces"),
    [
        ([], []),
        ([CheckVersion("a/there", 7)], []),
        ([Delete("a/missing")], []),
        ([Delete("a/there")], ["a"]),
        ([Put("a/there", b""), Hold("b/missing", b"")], ["a", "b"]),
        ([Put("b/there", b""), Put("a/1", b""), Put("a/2", b"")], ["a", "b"]),
        ([Put("there", b""), CheckVersion("b/there", 7)], [COMMON]),
    ],
)
def test_a_commit_changes_the_spaces_that_it_writes_to(
    ops: list[Op], spaces: list[str]
) -> None:
    """
    Checks, and deletes of what is missing, change nothing.
    """
    keys = by_key(ops)

    assert spaces == changed_spaces(keys, {key: "there" in key for key in keys})
