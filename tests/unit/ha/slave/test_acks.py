"""
What an ack says of a log.
"""

from __future__ import annotations

from lib.ha.slave_owner import ShortLog
from lib.values import replace

from pystore.core.frame_step import FAR_BEHIND_BYTES
from pystore.ha.slave.acks import (
    DELAYED_ACK_BYTES,
    Echo,
    may_delay_ack,
    next_confirm_offset,
    status_of,
    transfer_ack,
)
from pystore.ha.wire.codes import AckFlag, AckStatus, DataFlag
from pystore.ha.wire.frames import TransferAck, TransferData

LOG = ShortLog(b"12345678half", confirm=0).view()


def test_an_ack_is_the_log_and_the_echo() -> None:
    """
    RMQ-R181: nothing that was computed elsewhere gets into it.
    """
    log = replace(LOG, flushed_offset=8, confirm_offset=8)
    ack = transfer_ack(log, 5, Echo(77, 99), AckStatus.GAP, AckFlag.LEARNER)

    expected = TransferAck(5, 12, 8, 8, 77, 99, AckStatus.GAP, AckFlag.LEARNER)
    assert expected == ack


def test_confirm_is_bounded_by_whole_records_and_never_goes_back() -> None:
    """
    RMQ-R131.
    """
    assert next_confirm_offset(LOG, 100) == 8
    assert next_confirm_offset(LOG, 5) == 5
    assert next_confirm_offset(LOG, 0) is None
    assert next_confirm_offset(replace(LOG, confirm_offset=8), 100) is None


def test_poison_is_an_ailment() -> None:
    """
    A12: status 5.
    """
    assert AckStatus.OK is status_of(LOG)
    assert AckStatus.POISONED is status_of(replace(LOG, is_poisoned=True))


def test_an_ack_is_delayed_only_while_no_append_waits_for_it() -> None:
    """
    Far behind, for a bounded number of bytes, and unless the master asks.
    """
    at, none = 8 * DELAYED_ACK_BYTES, DataFlag(0)
    told = TransferData(
        1, 0, 0, 0, at + FAR_BEHIND_BYTES, 5, 0, none, memoryview(b"block")
    )

    assert may_delay_ack(told, at, at - DELAYED_ACK_BYTES + 1)
    assert not may_delay_ack(told, at, at - DELAYED_ACK_BYTES)
    assert not may_delay_ack(told, at + 1, at)
    assert not may_delay_ack(replace(told, flags=DataFlag.ACK_NOW), at, at)
    assert not may_delay_ack(replace(told, block=memoryview(b"")), at, at)
