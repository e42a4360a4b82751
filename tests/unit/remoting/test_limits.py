"""
Limits are numbers that something fits under.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pystore.errors import InvalidError
from pystore.remoting.limits import RemotingLimits


@pytest.mark.parametrize("number", [0, -1])
def test_a_limit_below_one_is_refused(number: int) -> None:
    """
    Nothing could be sent, or waited for.
    """
    with pytest.raises(InvalidError, match=f"requests_max is {number}"):
        replace(RemotingLimits(), requests_max=number)


def test_time_outs_and_frames_are_those_of_rocketmq() -> None:
    """
    Formats 3.1.
    """
    limits = RemotingLimits()

    assert 16_777_216 == limits.frame_bytes_max
    assert 120_000 == limits.idle_timeout_ms
    assert 3000 == limits.connect_timeout_ms
