"""
What a transaction pins: shown by the operations that ZooKeeper is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pystore.records.ops import ABSENT, CheckVersion, Delete, Hold, Op, Put, by_key
from pystore.records.znodes import Znodes
from pystore.records.zookeeper_transaction import NodesRead, is_guarded, plan

ME, OTHER = 11, 12
ZNODES = Znodes("/r")
A, BUCKET = ZNODES.node("a"), ZNODES.guard("a")
GENERATION = ("set", "/r/generation", -1)


@dataclass(frozen=True)
class Node:
    """A node as it was read."""

    version: int = 3
    mzxid: int = 100
    ephemeralOwner: int = 0  # noqa: N815 - ZooKeeper's name


class Recorded(list[tuple[object, ...]]):
    """The operations of a transaction, in a row."""

    def check(self, path: str, version: int) -> None:
        """Noted."""
        self.append(("check", path, version))

    def create(self, path: str, value: bytes, *, ephemeral: bool = False) -> None:
        """Noted, without the value."""
        assert isinstance(value, bytes)
        self.append(("create", path, ephemeral))

    def set_data(self, path: str, value: bytes, version: int = -1) -> None:
        """Noted, without the value."""
        assert isinstance(value, bytes)
        self.append(("set", path, version))

    def delete(self, path: str, version: int = -1) -> None:
        """Noted."""
        self.append(("delete", path, version))


def planned(ops: list[Op], node: Node | None) -> tuple[bool | None, Recorded]:
    """A plan for the key ``a``, whose bucket is at version 7."""
    recorded = Recorded()
    sight = NodesRead({BUCKET: 7}, {"a": node})
    return plan(by_key(ops), sight, ME, ZNODES, recorded), recorded


@pytest.mark.parametrize(
    ("ops", "node", "steps"),
    [
        ([CheckVersion("a", 100)], Node(), [("check", BUCKET, 7), ("check", A, 3)]),
        ([CheckVersion("a", ABSENT)], None, [("create", A, False), ("delete", A, -1)]),
        (
            [CheckVersion("a", 100), Put("a", b"")],
            Node(),
            [("check", BUCKET, 7), ("set", A, 3), GENERATION],
        ),
        (
            [CheckVersion("a", 100), Delete("a")],
            Node(),
            [("check", BUCKET, 7), ("delete", A, 3), GENERATION],
        ),
        ([Put("a", b"")], Node(), [("set", A, -1), GENERATION]),
        (
            [Put("a", b"")],
            None,
            [("set", BUCKET, -1), ("create", A, False), GENERATION],
        ),
        (
            [CheckVersion("a", ABSENT), Hold("a", b"")],
            None,
            [("set", BUCKET, -1), ("create", A, True), GENERATION],
        ),
        (
            [Hold("a", b"")],
            Node(ephemeralOwner=ME),
            [("check", BUCKET, 7), ("set", A, 3), GENERATION],
        ),
        ([Delete("a")], None, [("create", A, False), ("delete", A, -1)]),
    ],
)
def test_the_transaction_checks_every_node_that_it_relies_on(
    ops: list[Op], node: Node | None, steps: list[tuple[object, ...]]
) -> None:
    """
    A node that is there with its bucket; one that is made raises its bucket.
    """
    changes, recorded = planned(ops, node)

    assert steps == recorded
    assert (GENERATION in steps) is changes


@pytest.mark.parametrize(
    ("ops", "node"),
    [
        ([CheckVersion("a", 99)], Node()),
        ([CheckVersion("a", ABSENT)], Node()),
        ([CheckVersion("a", 100)], None),
        ([Hold("a", b"")], Node()),
        ([Hold("a", b"")], Node(ephemeralOwner=OTHER)),
    ],
)
def test_a_commit_that_fails_on_read_values_is_not_sent(
    ops: list[Op], node: Node
) -> None:
    """
    The reading was synchronised, so the refusal is true.
    """
    assert (None, []) == planned(ops, node)


def test_a_commit_sets_the_generation_of_each_space_that_it_changes() -> None:
    """
    And no other one: a check of another space ends no wait there.
    """
    keys = by_key(
        [
            CheckVersion("a", 100),
            Put("recovery/a", b""),
            Delete("gone/a"),
            Put("recovery/b", b""),
        ]
    )
    recorded = Recorded()
    nodes = {"a": Node(), "recovery/a": None, "recovery/b": None, "gone/a": None}
    assert plan(keys, NodesRead({BUCKET: 7}, nodes), ME, ZNODES, recorded)

    generations = [step for step in recorded if str(step[1]).endswith("/generation")]
    assert [("set", ZNODES.of_space("recovery").generation, -1)] == generations
    assert recorded[-1] == generations[0]


@pytest.mark.parametrize(
    ("ops", "guarded"),
    [
        ([CheckVersion("a", 100)], True),
        ([CheckVersion("a", 100), Put("a", b"")], True),
        ([Hold("a", b"")], True),
        ([CheckVersion("a", ABSENT), Hold("a", b"")], False),
        ([CheckVersion("a", ABSENT)], False),
        ([Put("a", b"")], False),
        ([Delete("a")], False),
    ],
)
def test_only_what_relies_on_an_existing_node_needs_its_guard(
    ops: list[Op], *, guarded: bool
) -> None:
    """
    Each guard that is not needed spares a request.
    """
    assert guarded is is_guarded(by_key(ops)["a"])
