"""
What a slave's connection is made with.
"""

from __future__ import annotations

from typing import Any

import pytest

from pystore.errors import InvalidError
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.wire.codes import SlaveFlag, TruncateFlag


def test_wishes_become_flags() -> None:
    """
    The same ones in both frames, but for the checksum.
    """
    config = SlaveConfig(
        "c", "b", 1, is_learner=True, is_from_last_file=True, is_suspended=True
    )

    assert SlaveFlag(15) == config.slave_flags
    assert TruncateFlag(7) == config.truncate_flags
    assert SlaveFlag.BLOCK_CRC == SlaveConfig("c", "b", 1).slave_flags
    assert SlaveConfig("c", "b", 1).known_epoch == -1


@pytest.mark.parametrize(
    "wrong",
    [
        {"broker_id": 0},
        {"incarnation_bits": b"short"},
        {"frame_bytes_max": 17 << 20},
        {"frame_bytes_max": 100},
        {"heartbeat_ms": 0},
        {"housekeeping_ms": 5_000},
    ],
    ids=str,
)
def test_values_that_no_frame_carries_are_refused(wrong: dict[str, Any]) -> None:
    """
    Before a link is tried.
    """
    with pytest.raises(InvalidError):
        SlaveConfig(**{"cluster": "c", "broker_name": "b", "broker_id": 1, **wrong})
