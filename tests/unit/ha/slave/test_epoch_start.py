"""
Which epoch begins with a block.
"""

from __future__ import annotations

import pytest
from lib.ha.slave_owner import ShortLog

from pystore.epochs.table import EpochEntry, EpochTable
from pystore.errors import RemoteViolation
from pystore.ha.slave.epoch_start import new_epoch_at, new_epoch_of_block
from pystore.ha.wire.codes import DataFlag
from pystore.ha.wire.frames import TransferData

LOG = ShortLog(b"1234567812345678", EpochTable.of([(1, 0), (3, 8)])).view()


def test_an_epoch_that_the_table_has_does_not_begin_again() -> None:
    """
    Nor is it moved.
    """
    assert new_epoch_at(LOG, 16, EpochEntry(3, 8)) is None


def test_a_newer_epoch_begins_with_its_first_byte() -> None:
    """
    At our end, where the block is.
    """
    assert EpochEntry(4, 16) == new_epoch_at(LOG, 16, EpochEntry(4, 16))


def test_an_empty_log_may_begin_inside_an_epoch() -> None:
    """
    The master's first segments are gone, their epoch is not.
    """
    assert EpochEntry(4, 5) == new_epoch_at(ShortLog().view(), 16, EpochEntry(4, 5))


@pytest.mark.parametrize("epoch", [(4, 24), (4, 8), (3, 16), (2, 16), (3, 0), (1, 0)])
def test_bytes_that_cannot_stand_behind_ours_are_refused(
    epoch: tuple[int, int],
) -> None:
    """
    Their epoch begins elsewhere, or is not newer.
    """
    with pytest.raises(RemoteViolation):
        new_epoch_at(LOG, 16, EpochEntry(*epoch))


@pytest.mark.parametrize("flags", [DataFlag(0), DataFlag.ACK_NOW])
@pytest.mark.parametrize("epoch", [(3, 8), (4, 16), (3, 9), (2, 0), (4, 17), (5, 16)])
def test_the_short_way_answers_as_the_long_one(
    epoch: tuple[int, int], flags: DataFlag
) -> None:
    """
    A block without flags is looked at more shortly, and judged alike.
    """
    body = TransferData(*epoch, 0, 16, 99, 7, 0, flags, b"bytes")
    problem, expected = "", None
    try:
        expected = new_epoch_at(LOG, 16, EpochEntry(*epoch))
    except RemoteViolation as error:  # both have to say the same
        problem = str(error)

    if epoch[0] > 4:
        problem = "a block of epoch 5 in a session of epoch 4"
    if problem:
        with pytest.raises(RemoteViolation, match=problem):
            new_epoch_of_block(LOG, body, 4)
    else:
        assert expected == new_epoch_of_block(LOG, body, 4)
