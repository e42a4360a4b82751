"""
Which masters are followed; the frames are tested with the protocol.
"""

from __future__ import annotations

import pytest
from lib.ha.scripted_v3_master import SHAKE, TERMS
from lib.ha.slave_owner import ShortLog
from lib.values import replace

from pystore.errors import RemoteViolation
from pystore.ha.slave.handshake import refusal_effect, slave_handshake
from pystore.ha.wire.codes import SlaveFlag
from pystore.ha.wire.frames import Frame

LOG = ShortLog(start=2048).view()


def test_an_empty_log_begins_at_nought() -> None:
    """
    RMQ-K.3: min is 0 if the log is empty.
    """
    assert slave_handshake(TERMS, LOG, is_suspended=False).min_offset == 0


def test_whether_we_are_suspended_is_asked_of_now() -> None:
    """
    It may have changed since the terms were made.
    """
    config = replace(TERMS, is_suspended=True)

    assert SlaveFlag.BLOCK_CRC == slave_handshake(config, LOG, is_suspended=False).flags
    both = SlaveFlag.BLOCK_CRC | SlaveFlag.START_SUSPENDED
    assert both == slave_handshake(config, LOG, is_suspended=True).flags


def test_a_good_answer_meets_no_objection() -> None:
    """
    Every check passes.
    """
    assert refusal_effect(TERMS, LOG, Frame(3, 0, SHAKE), SHAKE) is None


def test_a_frame_longer_than_we_take_is_no_term() -> None:
    """
    The limit is the lower of both.
    """
    shake = replace(SHAKE, frame_bytes_max=TERMS.frame_bytes_max + 1)
    with pytest.raises(RemoteViolation):
        refusal_effect(TERMS, LOG, Frame(3, 0, shake), shake)
