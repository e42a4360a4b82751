"""
Java's labels, one by one.
"""

from __future__ import annotations

import pytest

from pystore.epochs.table import EpochEntry, EpochTable
from pystore.errors import RemoteViolation
from pystore.ha.slave.block_epochs import BlockEpochs


def labels() -> BlockEpochs:
    """What a handshake told."""
    return BlockEpochs(EpochTable.of([(1, 100), (2, 200), (4, 300)]))


def test_the_vectors_of_a_recorded_master() -> None:
    """
    Formats 6.4: epochs 1:0, 2:1580, 4:2370, three frames.
    """
    told = BlockEpochs(EpochTable.of([(1, 0), (2, 1580), (4, 2370)]))

    assert EpochEntry(1, 0) == told.epoch_of(0, 1580, (2, 1580))
    assert EpochEntry(2, 1580) == told.epoch_of(1580, 790, (4, 2370))
    assert EpochEntry(4, 2370) == told.epoch_of(2370, 474, (4, 2370))


def test_a_new_label_is_remembered() -> None:
    """
    The chunk after the one that it ends is its first.
    """
    told = labels()

    assert EpochEntry(4, 300) == told.epoch_of(300, 50, (7, 350))
    assert EpochEntry(7, 350) == told.epoch_of(350, 9, (7, 350))


@pytest.mark.parametrize(
    ("offset", "size", "label"),
    [
        (50, 10, (1, 100)),
        (50, 50, (1, 100)),
        (150, 40, (2, 200)),
        (150, 60, (2, 200)),
        (250, 10, (1, 100)),
        (250, 10, (3, 240)),
        (250, 10, (2, 190)),
        (350, 10, (4, 310)),
        (350, 10, (5, 290)),
        (350, 10, (-1, 0)),
    ],
)
def test_a_label_that_no_master_gives_is_refused(
    offset: int, size: int, label: tuple[int, int]
) -> None:
    """
    Below the first epoch, inside or beyond the block, of an older epoch, re-based.
    """
    with pytest.raises(RemoteViolation):
        labels().epoch_of(offset, size, label)
