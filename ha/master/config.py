"""
The settings of a mastership, and what the master knows of the set. Pure.

Source: docs/protocol.md (RMQ-K.3), docs/replication.md, B1, B7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pystore.errors import InvalidError
from pystore.ha.wire.codes import FRAME_BYTES_MAX, FRAME_BYTES_UNSETTLED
from pystore.ha.wire.legacy import LEGACY_HEAD_BYTES
from pystore.ha.wire.v3 import DATA_BYTES_MIN
from pystore.replicaset import Incarnation

__all__ = ["FRAME_BYTES_LEAST", "LEGACY_BUFFER_BYTES", "MasterConfig", "SetView"]

FRAME_BYTES_LEAST = 4096
"""What each side must be able to take in one v3 frame."""

LEGACY_BUFFER_BYTES = 4 << 20
"""A Java slave's buffer: a longer frame never gets complete (RMQ-R184)."""


@dataclass(frozen=True, slots=True)
class MasterConfig:
    """
    The settings under which a master serves slaves, for one epoch.

    Attributes:
        cluster: name of the cluster.
        broker_name: name of the broker set.
        broker_id: the master's.
        epoch: of its mastership; a session ends with it.
        segment_size: bytes of one file of its log.
        frame_bytes_max: the longest v3 frame that it takes and sends.
        block_bytes_max: the longest block in a v3 frame.
        legacy_block_bytes_max: the longest block in a legacy frame
            (``haTransferBatchSize``).
        heartbeat_ms: how often each side sends at least one frame.
        housekeeping_ms: how long a side waits for a frame.
        reply_ms: how long a slave may take between two steps of a handshake.
        handshake_ms: how long a handshake may take in all; once a slave has proven who
            it is, as long as `housekeeping_ms`.
        has_block_crc: blocks carry a checksum if the slave can check it (v3).
        versions_refused: releases of pystore that are not served.
        wall_ms: wall clock minus the clock of the connection; frames carry the wall
            clock for people.

    Raises:
        InvalidError: a number is out of its range.
    """

    cluster: str
    broker_name: str
    broker_id: int
    epoch: int
    segment_size: int
    frame_bytes_max: int = FRAME_BYTES_UNSETTLED
    block_bytes_max: int = 256 << 10
    legacy_block_bytes_max: int = 32 << 10
    heartbeat_ms: int = 5000
    housekeeping_ms: int = 20000
    reply_ms: int = 5000
    handshake_ms: int = 10000
    has_block_crc: bool = False
    versions_refused: frozenset[str] = frozenset()
    wall_ms: int = 0

    def __post_init__(self) -> None:
        _check("epoch", self.epoch, 0, 2**63 - 2)
        _check("broker_id", self.broker_id, 1, 2**63 - 1)
        _check("segment_size", self.segment_size, 1, 2**63 - 1)
        frame_max = self.frame_bytes_max
        _check("frame_bytes_max", frame_max, FRAME_BYTES_LEAST, FRAME_BYTES_MAX)
        _check("block_bytes_max", self.block_bytes_max, 1, FRAME_BYTES_MAX)
        legacy_max = LEGACY_BUFFER_BYTES - LEGACY_HEAD_BYTES
        _check("legacy_block_bytes_max", self.legacy_block_bytes_max, 1, legacy_max)
        _check("heartbeat_ms", self.heartbeat_ms, 1, self.housekeeping_ms)
        _check("housekeeping_ms", self.housekeeping_ms, 1, 2**31 - 1)
        _check("reply_ms", self.reply_ms, 1, 2**31 - 1)
        _check("handshake_ms", self.handshake_ms, 1, 2**31 - 1)

    def frame_bytes(self, slave_bytes_max: int) -> int:
        """
        Returns the longest frame of a v3 session: what both sides take.
        """
        return min(slave_bytes_max, self.frame_bytes_max)

    def block_bytes(self, frame_bytes_max: int) -> int:
        """
        Returns the longest block of a v3 session with this limit of frames.
        """
        return min(self.block_bytes_max, frame_bytes_max - DATA_BYTES_MIN)


def _check(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidError(f"{name} {value} is not in {least}..{most}")


@dataclass(frozen=True, slots=True)
class SetView:
    """
    What is known about the brokers of the set, taken at one moment.

    Attributes:
        broker_ids: all brokers of the set that the controller knows.
        members: of the SyncStateSet, or of one that the controller may have (RMQ-R114).
        candidates: replicas that may still be elected (B7).
        sessions: of each broker with a live session, its newest incarnation; a
            legacy one has ``None``.
        is_master: whether this broker still is.
        redirect: the HA address of the master, where it is known to be another.
        is_busy: whether no session more is taken for now.
    """

    broker_ids: frozenset[int]
    members: frozenset[int] = frozenset()
    candidates: frozenset[int] = frozenset()
    sessions: Mapping[int, Incarnation | None] = field(default_factory=dict)
    is_master: bool = True
    redirect: str = ""
    is_busy: bool = False

    def counts(self, broker_id: int) -> bool:
        """
        Returns whether acknowledgements wait for this broker.
        """
        return broker_id in self.members or broker_id in self.candidates
