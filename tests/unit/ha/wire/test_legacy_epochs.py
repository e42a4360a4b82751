"""
Epoch tables as Java masters send them, and as Java slaves read them.
"""

from __future__ import annotations

import pytest
from lib.oracle.ha_captures import CAPTURES, Capture, frames_of

from pystore.epochs.table import EpochTable
from pystore.errors import InvalidError, RemoteViolation
from pystore.ha.wire.legacy import (
    LegacyEpochs,
    encode_legacy,
    epochs_in_legacy,
    table_of_legacy,
)


def told(*entries: tuple[int, int], end_offset: int = 2844) -> LegacyEpochs:
    """
    Returns a master's answer.
    """
    return LegacyEpochs(end_offset, entries[-1][0] if entries else -1, entries)


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.name)
def test_every_recorded_table_is_read_and_told_alike(capture: Capture) -> None:
    """
    What Java brokers really said, byte for byte back again.
    """
    answers = [
        (frame, raw)
        for _, master in capture.streams()
        for frame, raw in frames_of(master, is_master=True)
        if isinstance(frame, LegacyEpochs)
    ]
    assert answers
    for frame, raw in answers:
        table = table_of_legacy(frame)
        assert list(frame.entries) == table.pairs()
        assert raw == encode_legacy(epochs_in_legacy(table, frame.end_offset))


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], []),
        ([(1, 0)], [(1, 0)]),
        ([(1, 0), (1, 0)], [(1, 0)]),
        ([(1, 0), (2, 0)], [(2, 0)]),
        (
            [(1, 0), (2, 100), (3, 100), (4, 100), (5, 200)],
            [(1, 0), (4, 100), (5, 200)],
        ),
        ([(1, 0), (2, 100), (2, 100), (3, 100)], [(1, 0), (3, 100)]),
    ],
)
def test_an_epoch_without_bytes_leaves_no_trace(
    entries: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    """
    RMQ-R137: of equal starts the newest epoch counts; what comes twice counts once.
    """
    assert expected == table_of_legacy(told(*entries)).pairs()


@pytest.mark.parametrize(
    "entries",
    [
        [(2, 0), (1, 100)],
        [(1, 100), (2, 50)],
        [(1, 0), (1, 100)],
        [(2, 100), (1, 100)],
        [(-1, 0)],
        [(1, -1)],
    ],
)
def test_what_does_not_ascend_is_no_history(entries: list[tuple[int, int]]) -> None:
    """
    Such a master is not followed, since its labels prove nothing.
    """
    with pytest.raises(RemoteViolation, match="the master's epochs"):
        table_of_legacy(told(*entries))


def test_an_entry_above_the_end_does_not_count_for_the_consistent_point() -> None:
    """
    RMQ-R144: it stays in the table, and the comparison leaves it out.
    """
    theirs = table_of_legacy(told((1, 0), (2, 3000)))
    own = EpochTable.of([(1, 0), (2, 3000)])

    assert [(1, 0), (2, 3000)] == theirs.pairs()
    assert 2000 == own.consistent_point(theirs, 2000, 2844)


def test_entries_above_the_end_are_not_told() -> None:
    """
    RMQ-R144: a Java slave would compare them.
    """
    table = EpochTable.of([(1, 0), (2, 100), (3, 101)])

    assert LegacyEpochs(100, 2, ((1, 0), (2, 100))) == epochs_in_legacy(table, 100)


def test_an_epoch_that_no_legacy_frame_can_name_is_not_told() -> None:
    """
    It is not cut down to 32 bits: another epoch would be meant.
    """
    for epoch, fits in ((2**31 - 1, True), (2**31, False)):
        table = EpochTable.of([(1, 0), (epoch, 10)])
        if fits:
            assert epoch == epochs_in_legacy(table, 20).last_epoch
        else:
            with pytest.raises(InvalidError, match="epoch 2147483648"):
                epochs_in_legacy(table, 20)


def test_five_thousand_epochs_are_told_to_a_java_slave() -> None:
    """
    RMQ-R198: it reads 4 MiB, although a Java master sends 12,000 bytes at most.
    """
    table = EpochTable.of((n, 10 * n) for n in range(5000))
    frame = epochs_in_legacy(table, 50_000)

    assert 20 + 12 * 5000 == len(encode_legacy(frame))
    assert table == table_of_legacy(frame)
