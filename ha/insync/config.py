"""
The settings of a SyncStateSet, and RocketMQ's names for them. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pystore.errors import InvalidError
from pystore.ha.insync.ack import Ack

__all__ = ["SetRules", "ack_of_rocketmq", "rules_of_rocketmq"]

_TRUTHS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class SetRules:
    """
    When a replica is in sync, and how many must be.

    Attributes:
        min_in_sync: replicas, the master included, that `all` and `all-synced` need;
            RocketMQ: ``minInSyncReplicas``.
        serves_synced: the set serves `all-synced`, so caught up means flushed (B9);
            a legacy slave does not report what it flushed, so this spares it.
        lag_ms_max: a member that was last caught up longer ago is removed;
            RocketMQ: ``haMaxTimeSlaveNotCatchup``.
        first_check_ms: when lags are first checked, after the mastership began.
        check_ms: the period of later checks; RocketMQ: ``checkSyncStateSetPeriod``.
        join_lag_ms: a slave that was caught up this recently is about to join, so
            the confirm offset waits for it.
        retry_ms: how long after a refusal or a lost answer the next change is
            requested.
        refused_ms: how long a slave that the controller refused is not proposed.
        resign_ms: a master that cannot listen, append or sync for longer resigns, if
            another member is well (B13); 0: as `lag_ms_max`.

    Raises:
        InvalidError: a number is out of its range.
    """

    min_in_sync: int = 1
    serves_synced: bool = True
    lag_ms_max: int = 15_000
    first_check_ms: int = 3_000
    check_ms: int = 5_000
    join_lag_ms: int = 1_000
    retry_ms: int = 1_000
    refused_ms: int = 5_000
    resign_ms: int = 0

    def __post_init__(self) -> None:
        if self.min_in_sync < 1:
            raise InvalidError(
                f"min_in_sync is {self.min_in_sync}: it is at least 1, the master"
            )
        if self.lag_ms_max < 1 or self.check_ms < 1:
            raise InvalidError(f"{self}: a time is not positive")
        if self.resign_ms < 0:
            raise InvalidError(f"{self}: a time is negative")

    @property
    def ill_ms_max(self) -> int:
        """
        How long a master may be unable to serve.
        """
        return self.resign_ms or self.lag_ms_max


def ack_of_rocketmq(properties: Mapping[str, str]) -> Ack:
    """
    Returns the ack that a RocketMQ configuration means, or the stronger one.

    ``inSyncReplicas`` of more than one becomes `all`: a count of replicas does not
    say which of them is elected next (RMQ-R207, RMQ-R208). ``enableAutoInSyncReplicas``
    has no effect in controller mode (RMQ-R209).

    Args:
        properties: ``allAckInSyncStateSet``, ``inSyncReplicas``,
            ``minInSyncReplicas``, ``flushDiskType``; others are ignored.

    Raises:
        InvalidError: a value is not of its kind.
    """
    is_shared = _flag(properties, "allAckInSyncStateSet") or _copies(properties) > 1
    if properties.get("flushDiskType", "ASYNC_FLUSH").upper() == "SYNC_FLUSH":
        # RocketMQ's slaves ack what they received, so this requires no more of them.
        return Ack.ALL if is_shared else Ack.LEADER_SYNCED
    return Ack.ALL if is_shared else Ack.LEADER


def rules_of_rocketmq(properties: Mapping[str, str]) -> SetRules:
    """
    Returns the rules that a RocketMQ configuration means, or stricter ones.

    Args:
        properties: ``inSyncReplicas``, ``minInSyncReplicas``,
            ``haMaxTimeSlaveNotCatchup``, ``checkSyncStateSetPeriod``; others are
            ignored.

    Raises:
        InvalidError: a value is not of its kind.
    """
    minimum = _number(properties, "minInSyncReplicas", 1)
    if not _flag(properties, "allAckInSyncStateSet"):
        minimum = _copies(properties)
    return SetRules(
        min_in_sync=max(1, minimum),
        lag_ms_max=_number(properties, "haMaxTimeSlaveNotCatchup", 15_000),
        check_ms=_number(properties, "checkSyncStateSetPeriod", 5_000),
    )


def _copies(properties: Mapping[str, str]) -> int:
    names = ("inSyncReplicas", "minInSyncReplicas")
    return max(_number(properties, name, 1) for name in names)


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    text = properties.get(name, str(default)).strip()
    if not text.isascii() or not text.isdecimal():
        raise InvalidError(f"{name}={text}: not a number; write digits")
    return int(text)


def _flag(properties: Mapping[str, str], name: str) -> bool:
    text = properties.get(name, "false").strip().lower()
    if text not in _TRUTHS:
        raise InvalidError(f"{name}={text}: write true or false")
    return _TRUTHS[text]
