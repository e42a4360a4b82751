"""
Names and directories in ZooKeeper.
"""

from __future__ import annotations

from collections import Counter

import pytest

from pystore.records.znodes import BUCKETS, SPACE_BUCKETS, Znodes


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
    for root in ("a/b/", "/a/b"):
        assert "/a/b/generation" == Znodes(root).common.generation


def test_keys_that_look_alike_are_spread_evenly() -> None:
    """
    So a million records have some four thousand in each directory.
    """
    znodes = Znodes("/pystore")
    counts = Counter(
        znodes.bucket(f"controller/sets/c/{n}") for n in range(100 * BUCKETS)
    )

    assert BUCKETS == len(counts)
    assert 160 > max(counts.values())


def test_the_common_space_is_where_it_was_before_there_were_spaces() -> None:
    """
    The nodes of existing controllers: a guard there is the bucket itself.
    """
    znodes = Znodes("/pystore")

    for key in ("controller/leader", "controller/sets/c/n", "leader"):
        bucket, _, name = znodes.node(key).rpartition("/")
        assert bucket in {f"/pystore/records/{n:02x}" for n in range(256)}
        assert bucket == znodes.guard(key)
        assert key == Znodes.key(name)
    assert "/pystore/records/9f/kcontroller%2Fleader" == znodes.node(
        "controller/leader"
    )


def test_another_space_has_few_buckets_and_many_guards_of_its_own() -> None:
    """
    It is listed by few requests, and two commits seldom meet at one guard.
    """
    znodes = Znodes("/pystore")
    keys = [f"recovery/ur/c/broker-{n}" for n in range(100 * BUCKETS)]
    buckets = Counter(map(znodes.bucket, keys))
    guards = Counter(map(znodes.guard, keys))
    nodes = znodes.of_space("recovery")

    assert set(nodes.buckets) == set(buckets)
    assert set(nodes.guards) == set(guards)
    assert SPACE_BUCKETS == len(buckets)
    assert BUCKETS == len(guards)
    assert 160 > max(guards.values())
    assert all(p.startswith("/pystore/spaces/krecovery/") for p in buckets | guards)


@pytest.mark.parametrize("space", ["", "recovery", "..", "ä b"])
def test_each_node_is_made_after_its_directory(space: str) -> None:
    """
    The transaction that makes them runs in this order; the generation is last.
    """
    znodes = Znodes("/pystore")
    nodes = znodes.of_space(space)
    made = {znodes.root, znodes.spaces}
    for path in nodes.all:
        assert path.rpartition("/")[0] in made
        assert path not in made
        made.add(path)

    assert nodes.generation == nodes.all[-1]
    assert {*nodes.buckets, *nodes.guards} <= made
