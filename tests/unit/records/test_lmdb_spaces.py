"""
The tokens of spaces in LMDB, beside programs that know no spaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import lmdb
import pytest

from pystore.records.lmdb_spaces import note_changes, token_of
from pystore.records.spaces import COMMON, NEVER


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[lmdb.Environment]:
    """
    An empty one.
    """
    made = lmdb.Environment(str(tmp_path))
    yield made
    made.close()


def committed(environment: lmdb.Environment, spaces: Sequence[str]) -> int:
    """
    The number of a transaction that notes the changed spaces.
    """
    with environment.begin(write=True) as transaction:
        note_changes(transaction, spaces)
        transaction.put(b"record", b"%d" % transaction.id())
        return int(transaction.id())


def committed_by_an_older_program(environment: lmdb.Environment) -> None:
    """
    A transaction that notes nothing.
    """
    with environment.begin(write=True) as transaction:
        transaction.put(b"controller/leader", b"")


def tokens(environment: lmdb.Environment) -> dict[str, int]:
    """
    Of three spaces.
    """
    with environment.begin() as transaction:
        return {one: token_of(transaction, one) for one in (COMMON, "a", "b")}


def test_each_space_has_the_token_of_its_own_changes(
    environment: lmdb.Environment,
) -> None:
    """
    Those of other spaces and a new owner's leave it as it is.
    """
    before = tokens(environment)
    assert {COMMON: NEVER, "a": NEVER, "b": NEVER} == before
    for changed in ([COMMON], ["a"], ["b", COMMON], [], ["b"], ["a", "b"]):
        committed(environment, changed)
        after = tokens(environment)
        for space, token in after.items():
            assert (token > before[space]) is (space in changed), (changed, space)
        before = after


def test_a_commit_of_an_older_program_changes_the_common_space(
    environment: lmdb.Environment,
) -> None:
    """
    It writes there and counts nothing.
    """
    committed(environment, ["a"])
    before = tokens(environment)
    committed_by_an_older_program(environment)
    after = tokens(environment)

    assert before[COMMON] < after[COMMON]
    assert before["a"] == after["a"]
    committed(environment, ["a"])
    assert after[COMMON] == tokens(environment)[COMMON]
