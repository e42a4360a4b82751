"""
A table of epochs, page by page.
"""

from __future__ import annotations

import pytest
from lib.values import replace

from pystore.errors import RemoteViolation
from pystore.ha.slave.consistent_point import MasterHistory
from pystore.ha.slave.epoch_query import ENTRIES_MAX, EpochPages
from pystore.ha.wire.codes import EpochsFlag
from pystore.ha.wire.frames import ReturnEpoch

WHOLE = ReturnEpoch(1, 0, 24, 2, EpochsFlag(0), ((1, 0, 16), (3, 16, 24)))
FIRST = replace(WHOLE, flags=EpochsFlag.MORE, entries=((1, 0, 16),))
SECOND = replace(WHOLE, entries=((3, 16, 24),))


def history_of(page: ReturnEpoch) -> MasterHistory:
    """What a slave makes of one page."""
    pages = EpochPages()
    pages.add(page)
    return pages.history(3)


def test_two_pages_are_one_table() -> None:
    """
    The second is asked for from the next epoch on.
    """
    pages = EpochPages()
    pages.add(FIRST)
    assert (False, 2) == (pages.is_whole, pages.next_epoch)
    pages.add(SECOND)
    history = pages.history(3)

    assert pages.is_whole
    assert [(1, 0), (3, 16)] == history.epochs.pairs()
    assert (24, 0, 3) == (history.end_offset, history.min_offset, history.epoch)


def test_an_empty_table_is_a_table() -> None:
    """
    A master of a store without epochs.
    """
    pages = EpochPages()
    pages.add(replace(WHOLE, entries_total=0, entries=()))

    assert 0 == len(pages.history(3).epochs)


@pytest.mark.parametrize(
    "wrong",
    [
        replace(WHOLE, entries_total=3),
        replace(WHOLE, entries_total=ENTRIES_MAX + 1),
        replace(WHOLE, end_offset=25),
        replace(WHOLE, min_offset=25),
        replace(WHOLE, min_offset=-1),
        replace(WHOLE, entries=((1, 0, 16), (3, 17, 24))),
        replace(WHOLE, entries=((3, 0, 16), (1, 16, 24))),
        replace(WHOLE, entries=((1, 0, 0), (3, 0, 24))),
        replace(WHOLE, entries=((1, 0, 30), (3, 30, 24))),
        replace(WHOLE, entries=((-1, 0, 16), (3, 16, 24))),
        replace(WHOLE, entries=((1, 0, 16), (4, 16, 24))),
        replace(FIRST, entries=()),
    ],
    ids=range(12),
)
def test_a_table_that_cannot_be_is_refused(wrong: ReturnEpoch) -> None:
    """
    Gaps, disorder, empty epochs, another count, an epoch above the session's.
    """
    with pytest.raises(RemoteViolation):
        history_of(wrong)


def test_pages_that_go_round_are_refused() -> None:
    """
    Else a master could fill our memory for ever.
    """
    pages = EpochPages()
    pages.add(FIRST)
    with pytest.raises(RemoteViolation):
        pages.add(FIRST)


def test_no_page_is_no_table() -> None:
    """
    Our own order of calls is checked as well.
    """
    with pytest.raises(RemoteViolation):
        EpochPages().history(3)
