"""
The numbers of the protocols are those of docs/protocol.md, frozen here as text.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

import pytest

from pystore.ha.wire import codes

FROZEN = """
State READY=0 HANDSHAKE=1 TRANSFER=2 SUSPEND=3 SHUTDOWN=4
FrameType HANDSHAKE_SLAVE=1 HANDSHAKE_MASTER=2 QUERY_EPOCH=3 RETURN_EPOCH=4
FrameType CONFIRM_TRUNCATE=5 TRANSFER_DATA=6 TRANSFER_ACK=7
FrameType QUERY_QUEUES=8 RETURN_QUEUES=9 CHALLENGE=10 PROOF=11
CheckResult SUCCESS=0 REJECTED=-1 CLUSTER_NAME=-2 BROKER_NAME=-3 BROKER_ID=-4
CheckResult PROTOCOL=-5 APP_VERSION=-6 NOT_MASTER=-7 STALE_EPOCH=-8 FUTURE_EPOCH=-9
CheckResult STORE_LAYOUT=-10 BUSY=-11 DUPLICATE=-12
TruncateOutcome NOTHING_TO_CUT=0 CUT=1 EMPTY=2 NO_COMMON_POINT=3 REFUSED=4
AckStatus OK=0 GAP=1 DISK_FULL=2 BAD_CRC=3 SHUTTING_DOWN=4 POISONED=5
SlaveFlag SYNC_FROM_LAST_FILE=1 LEARNER=2 START_SUSPENDED=4 BLOCK_CRC=8
SlaveFlag FILLING=16 PROVES=32
MasterFlag SUSPENDED=1 BLOCK_CRC=2
EpochsFlag MORE=1
QueuesFlag MORE=1
TruncateFlag SYNC_FROM_LAST_FILE=1 LEARNER=2 START_SUSPENDED=4
DataFlag SUSPENDED=1 EPOCH_BEGINS=2 ACK_NOW=4
AckFlag LEARNER=1 SUSPEND=2 RESUME=4 LEAVING=8
"""
KINDS = [
    kind
    for kind in vars(codes).values()
    if isinstance(kind, type)
    and issubclass(kind, IntEnum | IntFlag)
    and kind not in (IntEnum, IntFlag)
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_number_is_the_one_on_the_wire(kind: type[IntEnum]) -> None:
    """
    A number that another program sends never changes its meaning.
    """
    rows = [row.split() for row in FROZEN.strip().splitlines()]
    frozen = [word for name, *words in rows if name == kind.__name__ for word in words]

    assert frozen == [f"{one.name}={one.value}" for one in kind]


def test_the_limits_are_those_of_the_protocol() -> None:
    """
    Header, frames before and after the handshake, and what legacy frames name.
    """
    assert (3, 24) == (codes.PROTOCOL_V3, codes.HEADER_BYTES)
    assert (1048576, 16777216) == (codes.FRAME_BYTES_UNSETTLED, codes.FRAME_BYTES_MAX)
    assert 0x7FFFFFFF == codes.LEGACY_EPOCH_MAX
