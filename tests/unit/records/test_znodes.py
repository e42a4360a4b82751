"""
Names and directories in ZooKeeper.
"""

from __future__ import annotations

from collections import Counter

import pytest

from pystore.records.znodes import BUCKETS, Znodes


@pytest.mark.parametrize(
    "key", [".", "..", "a/b", "a%2Fb", "%", "ä 🙂", "k", "a" * 255]
)
def test_a_key_comes_back_from_its_name(key: str) -> None:
    """
    And its name is one that ZooKeeper takes.
    """
    bucket, _, name = Znodes("/pystore").node(key).rpartition("/")

    assert key == Znodes.key(name)
    assert name.isascii()
    assert name not in (".", "..")
    assert Znodes("/pystore").bucket(key) == bucket


def test_a_root_may_have_slashes_or_not() -> None:
    """
    All is below it.
    """
    assert Znodes("a/b/").generation == Znodes("/a/b").generation == "/a/b/generation"


def test_keys_that_look_alike_are_spread_evenly() -> None:
    """
    So a million records have some four thousand in each directory.
    """
    znodes = Znodes("/pystore")
    counts = Counter(znodes.bucket(f"sets/c/broker-{n}") for n in range(100 * BUCKETS))

    assert BUCKETS == len(counts)
    assert 160 > max(counts.values())
