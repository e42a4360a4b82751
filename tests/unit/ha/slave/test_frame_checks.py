"""
What a slave checks of a master's frames.
"""

from __future__ import annotations

import pytest
from lib.ha.scripted_v3_master import BYTES, data, history
from lib.ha.slave_owner import ShortLog

from pystore.errors import RemoteViolation
from pystore.ha.slave.frame_checks import LinkPhase, check_place, expect


@pytest.mark.parametrize("phase", LinkPhase)
def test_a_frame_is_taken_in_the_phase_that_waits_for_it(phase: LinkPhase) -> None:
    """In each other one it is a violation."""
    for wanted in LinkPhase:
        if wanted is phase:
            expect(phase, wanted, "a frame")
            continue
        with pytest.raises(RemoteViolation, match=f"a frame, and .* {phase.value}"):
            expect(phase, wanted, "a frame")


def test_a_block_begins_where_the_log_ends() -> None:
    """And ends within the master's log."""
    log = ShortLog(BYTES[:16], history((1, 0))).view()
    check_place(log, data(16))
    with pytest.raises(RemoteViolation, match="begins at offset 8"):
        check_place(log, data(8))
    with pytest.raises(RemoteViolation, match="a log that ends at offset 20"):
        check_place(log, data(16, end_offset=20))
