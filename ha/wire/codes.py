"""
Numbers of the replication protocols, by name. Pure.

Source: docs/protocol.md (RMQ-K.3 for v3, formats 6 for legacy).
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

__all__ = [
    "FRAME_BYTES_MAX",
    "FRAME_BYTES_UNSETTLED",
    "HEADER_BYTES",
    "LEGACY_EPOCH_MAX",
    "PROTOCOL_V3",
    "AckFlag",
    "AckStatus",
    "CheckResult",
    "DataFlag",
    "EpochsFlag",
    "FrameType",
    "MasterFlag",
    "QueuesFlag",
    "SlaveFlag",
    "State",
    "TruncateFlag",
    "TruncateOutcome",
]

PROTOCOL_V3 = 3
"""The version of the protocol that RMQ-K.3 defines."""

HEADER_BYTES = 24
"""Frame length, type, write timestamp and epoch of a v3 frame."""

FRAME_BYTES_UNSETTLED = 1 << 20
"""The longest v3 frame before the handshake has set another limit."""

FRAME_BYTES_MAX = 16 << 20
"""The longest v3 frame that two sides may agree on."""

LEGACY_EPOCH_MAX = 2**31 - 1
"""The newest epoch that a legacy frame can name."""


class State(IntEnum):
    """
    States of a connection, with the ordinals that legacy frames carry.
    """

    READY = 0
    HANDSHAKE = 1
    TRANSFER = 2
    SUSPEND = 3
    SHUTDOWN = 4


class FrameType(IntEnum):
    """
    The type of a v3 frame. 0 and 12 to 15 are reserved; from 16 on a frame is skipped.
    """

    HANDSHAKE_SLAVE = 1
    HANDSHAKE_MASTER = 2
    QUERY_EPOCH = 3
    RETURN_EPOCH = 4
    CONFIRM_TRUNCATE = 5
    TRANSFER_DATA = 6
    TRANSFER_ACK = 7
    QUERY_QUEUES = 8
    RETURN_QUEUES = 9
    CHALLENGE = 10
    PROOF = 11


class CheckResult(IntEnum):
    """
    The result of a handshake.
    """

    SUCCESS = 0
    REJECTED = -1
    CLUSTER_NAME = -2
    BROKER_NAME = -3
    BROKER_ID = -4
    PROTOCOL = -5
    APP_VERSION = -6
    NOT_MASTER = -7
    STALE_EPOCH = -8
    """The slave's epoch is behind the master's."""
    FUTURE_EPOCH = -9
    """The master's epoch is behind the slave's."""
    STORE_LAYOUT = -10
    BUSY = -11
    DUPLICATE = -12
    """A live session of a newer incarnation exists."""


class TruncateOutcome(IntEnum):
    """
    The result of a slave's cut to the consistent point.
    """

    NOTHING_TO_CUT = 0
    CUT = 1
    EMPTY = 2
    NO_COMMON_POINT = 3
    REFUSED = 4


class AckStatus(IntEnum):
    """
    The status of a slave's log.
    """

    OK = 0
    GAP = 1
    DISK_FULL = 2
    BAD_CRC = 3
    SHUTTING_DOWN = 4
    POISONED = 5


class SlaveFlag(IntFlag):
    """
    Of HANDSHAKE_SLAVE.
    """

    SYNC_FROM_LAST_FILE = 1
    LEARNER = 2
    START_SUSPENDED = 4
    BLOCK_CRC = 8
    FILLING = 16
    """Its log begins above the place where the set's log began when it joined (B11)."""
    PROVES = 32
    """It can prove who it is: random bytes are behind the texts."""


class MasterFlag(IntFlag):
    """
    Of HANDSHAKE_MASTER.
    """

    SUSPENDED = 1
    BLOCK_CRC = 2


class EpochsFlag(IntFlag):
    """
    Of RETURN_EPOCH.
    """

    MORE = 1


class QueuesFlag(IntFlag):
    """
    Of RETURN_QUEUES.
    """

    MORE = 1


class TruncateFlag(IntFlag):
    """
    Of CONFIRM_TRUNCATE.
    """

    SYNC_FROM_LAST_FILE = 1
    LEARNER = 2
    START_SUSPENDED = 4


class DataFlag(IntFlag):
    """
    Of TRANSFER_DATA.
    """

    SUSPENDED = 1
    EPOCH_BEGINS = 2
    ACK_NOW = 4


class AckFlag(IntFlag):
    """
    Of TRANSFER_ACK.
    """

    LEARNER = 1
    SUSPEND = 2
    RESUME = 4
    LEAVING = 8
