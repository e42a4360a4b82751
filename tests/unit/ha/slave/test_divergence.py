"""
How far a log is known to be the master's.
"""

from __future__ import annotations

from pystore.epochs.table import EpochTable
from pystore.ha.slave.divergence import Comparison, adopted_epochs


def test_a_block_is_split_at_our_end() -> None:
    """
    What is above it is new.
    """
    comparison = Comparison(8, 12)

    ours, rest = comparison.split(memoryview(b"abc"))
    assert (b"abc", b"") == (bytes(ours), bytes(rest))
    comparison.matched(3)
    assert (11, False) == (comparison.position, comparison.is_over)
    ours, rest = comparison.split(memoryview(b"def"))
    assert (b"d", b"ef") == (bytes(ours), bytes(rest))
    comparison.matched(1)
    assert comparison.is_over


def test_the_masters_labels_replace_ours_above_the_common_one() -> None:
    """
    As far as bytes are equal; an entry at the end waits for its first byte.
    """
    ours = EpochTable.of([(1, 0), (2, 8), (3, 20)])
    master = EpochTable.of([(2, 8), (4, 16), (5, 24)])

    assert [(1, 0), (2, 8), (4, 16)] == adopted_epochs(ours, master, 24).pairs()
