"""
Who the slave is and on which terms it follows. Pure.

Its owner knows all of this before it connects: from its configuration, its identity
file and the controller. A connection never learns it from the peer.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.epochs.table import NO_EPOCH
from pystore.errors import InvalidError
from pystore.ha.wire.codes import (
    FRAME_BYTES_MAX,
    FRAME_BYTES_UNSETTLED,
    SlaveFlag,
    TruncateFlag,
)

__all__ = ["SlaveConfig"]


@dataclass(frozen=True, slots=True)
class SlaveConfig:
    """
    What a slave's connection is made with.

    Attributes:
        cluster: name of the cluster.
        broker_name: name of the broker set.
        broker_id: ours, persistent, from 1 on.
        address: where we are reached.
        version: of our software.
        incarnation: counter of the process start.
        incarnation_bits: 16 random bytes of the process start (B1).
        epoch: of the master, as the controller told it; ``None``: nobody told, the
            master's own is taken if it is not below what we promised.
        is_learner: we count for nothing.
        is_from_last_file: an empty log begins with the master's last segment.
        is_suspended: the session begins without bytes.
        may_wipe: the controller lists us neither as member nor as candidate, so our
            bytes are nobody's hope.
        wants_block_crc: blocks carry a checksum (v3).
        frame_bytes_max: the longest frame that we take.
        heartbeat_ms: how often we say something at least (legacy; a v3 master says).
        housekeeping_ms: how long we wait for anything (likewise).

    Raises:
        InvalidError: a value that no frame can carry.
    """

    cluster: str
    broker_name: str
    broker_id: int
    address: str = ""
    version: str = ""
    incarnation: int = 0
    incarnation_bits: bytes = bytes(16)
    epoch: int | None = None
    is_learner: bool = False
    is_from_last_file: bool = False
    is_suspended: bool = False
    may_wipe: bool = False
    wants_block_crc: bool = False
    frame_bytes_max: int = FRAME_BYTES_MAX
    heartbeat_ms: int = 5_000
    housekeeping_ms: int = 20_000

    def __post_init__(self) -> None:
        if self.broker_id < 1:
            raise InvalidError(f"broker id {self.broker_id}: a replica's is above 0")
        if len(self.incarnation_bits) != 16:
            raise InvalidError("the random part of an incarnation has 16 bytes")
        if not FRAME_BYTES_UNSETTLED <= self.frame_bytes_max <= FRAME_BYTES_MAX:
            raise InvalidError(
                f"frames of at most {self.frame_bytes_max} bytes: the limit lies in "
                f"{FRAME_BYTES_UNSETTLED}..{FRAME_BYTES_MAX}"
            )
        if self.heartbeat_ms < 1 or self.housekeeping_ms <= self.heartbeat_ms:
            raise InvalidError(
                f"heartbeat {self.heartbeat_ms} ms and housekeeping "
                f"{self.housekeeping_ms} ms: the first is above 0, the second longer"
            )

    @property
    def known_epoch(self) -> int:
        """
        The controller's epoch, -1 if nobody told.
        """
        return NO_EPOCH if self.epoch is None else self.epoch

    @property
    def slave_flags(self) -> SlaveFlag:
        """
        The wishes as HANDSHAKE_SLAVE carries them.
        """
        flags = SlaveFlag(int(self.truncate_flags))
        return flags | SlaveFlag.BLOCK_CRC if self.wants_block_crc else flags

    @property
    def truncate_flags(self) -> TruncateFlag:
        """
        The wishes as CONFIRM_TRUNCATE carries them.
        """
        wishes = {
            TruncateFlag.SYNC_FROM_LAST_FILE: self.is_from_last_file,
            TruncateFlag.LEARNER: self.is_learner,
            TruncateFlag.START_SUSPENDED: self.is_suspended,
        }
        flags = TruncateFlag(0)
        for flag, is_wanted in wishes.items():
            flags |= flag if is_wanted else TruncateFlag(0)
        return flags
