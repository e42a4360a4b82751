"""
The identity of a slave, and the settings of its links. Pure.

The owner knows all of this before it connects: from its configuration, its identity
file and the controller. A link never takes it from the peer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pystore.epochs.table import NO_EPOCH
from pystore.errors import InvalidError
from pystore.ha.wire.codes import (
    FRAME_BYTES_MAX,
    FRAME_BYTES_UNSETTLED,
    SlaveFlag,
    TruncateFlag,
)
from pystore.ha.wire.proof import OPEN, LinkGuard

__all__ = ["SlaveConfig"]


@dataclass(frozen=True, slots=True)
class SlaveConfig:
    """
    The settings of a link to a master.

    Attributes:
        cluster: name of the cluster.
        broker_name: name of the broker set.
        broker_id: of the slave; persistent, from 1 on.
        address: of the slave.
        version: of the slave's software.
        incarnation: counter of the process start.
        incarnation_bits: 16 random bytes of the process start (B1).
        epoch: of the master, from the controller; ``None``: not known, the master's
            own is taken if it is not below the promised epoch.
        is_learner: the slave does not join the SyncStateSet, for as long as the link
            lasts.
        is_from_last_file: an empty log begins with the master's last segment.
        is_suspended: the session begins suspended.
        may_wipe: returns whether the controller lists the slave neither as member nor
            as candidate, so that no acknowledged record depends on its bytes. It is
            called when a wipe is decided, since the set may have changed (B15).
        guard: returns what this process knows about proofs of links at that moment.
        frame_bytes_max: the longest frame that the slave takes.
        heartbeat_ms: how often the slave sends at least one frame (legacy; a v3
            master names it).
        housekeeping_ms: how long the slave waits for a frame (likewise).

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
    may_wipe: Callable[[], bool] = bool
    guard: Callable[[], LinkGuard] = lambda: OPEN
    frame_bytes_max: int = FRAME_BYTES_MAX
    heartbeat_ms: int = 5_000
    housekeeping_ms: int = 20_000

    def __post_init__(self) -> None:
        if self.broker_id < 1:
            raise InvalidError(f"broker id {self.broker_id}: broker ids begin with 1")
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
        The controller's epoch; -1: not known.
        """
        return NO_EPOCH if self.epoch is None else self.epoch

    @property
    def slave_flags(self) -> SlaveFlag:
        """
        The settings as flags of HANDSHAKE_SLAVE. Each slave can check blocks.
        """
        return SlaveFlag(int(self.truncate_flags)) | SlaveFlag.BLOCK_CRC

    @property
    def truncate_flags(self) -> TruncateFlag:
        """
        The settings as flags of CONFIRM_TRUNCATE.
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
