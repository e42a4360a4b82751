"""
Impossible settings are refused; acks wait for the slaves that count.
"""

from __future__ import annotations

from typing import Any

import pytest
from lib.ha.master_bench import TERMS

from pystore.errors import InvalidError
from pystore.ha.master.config import FRAME_BYTES_LEAST, MasterConfig, SetView
from pystore.ha.wire.codes import FRAME_BYTES_MAX
from pystore.ha.wire.v3 import DATA_BYTES_MIN


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": -1},
        {"broker_id": 0},
        {"segment_size": 0},
        {"frame_bytes_max": FRAME_BYTES_LEAST - 1},
        {"frame_bytes_max": FRAME_BYTES_MAX + 1},
        {"block_bytes_max": 0},
        {"legacy_block_bytes_max": (4 << 20) - 35},
        {"heartbeat_ms": 0},
        {"heartbeat_ms": 20001},
        {"housekeeping_ms": 2**31},
        {"reply_ms": 0},
    ],
)
def test_a_number_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    """The message names the number and the range."""
    values: dict[str, Any] = {
        "cluster": "c",
        "broker_name": "b",
        "broker_id": 1,
        "epoch": 1,
    }
    values |= {"broker_id": 1, "segment_size": 2048, **change}

    with pytest.raises(InvalidError, match=rf"{next(iter(change))} -?\d+ is not in"):
        MasterConfig(**values)


def test_a_legacy_frame_fits_into_a_java_slaves_buffer() -> None:
    """RMQ-R184: a longer one never gets complete; the longest is taken."""
    MasterConfig("c", "b", 1, 1, 2048, legacy_block_bytes_max=(4 << 20) - 36)


def test_a_session_uses_the_frames_that_both_sides_take() -> None:
    """The lower limit of the two."""
    assert TERMS.frame_bytes(5000) == 5000
    assert TERMS.frame_bytes(1 << 30) == TERMS.frame_bytes_max


def test_a_block_fits_into_a_frame_with_its_head() -> None:
    """And is no longer than is allowed."""
    assert TERMS.block_bytes(5000) == 5000 - DATA_BYTES_MIN
    assert TERMS.block_bytes(16 << 20) == TERMS.block_bytes_max


def test_members_and_candidates_count() -> None:
    """B7: candidates belong to those whose acks are waited for."""
    set_view = SetView(frozenset({1, 2, 3, 4}), frozenset({1, 2}), frozenset({3}))

    assert [i for i in range(6) if set_view.counts(i)] == [1, 2, 3]
