"""
The standing of a log after a restart of its broker. Pure.

Source: B1, B2, B4, A15.
"""

from __future__ import annotations

from pystore.controller.model.commands import Recovery
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.replica import LogStanding, RegisteredBroker

__all__ = ["standing_of"]


def standing_of(
    replica: RegisteredBroker,
    recovery: Recovery | None,
    seen: LogEnd,
    *,
    is_listed: bool,
) -> LogStanding:
    """
    Returns the standing of the log of a process that registers.

    Args:
        replica: as the previous process left it.
        recovery: the report of the process; ``None``: a Java broker.
        seen: the largest known log end of the previous process.
        is_listed: it is a member or a candidate.
    """
    if recovery is None:
        # A Java broker reports nothing, so it is trusted as RocketMQ trusts it.
        is_same = replica.counter_max == 0
        return replica.standing if is_same else LogStanding.RESTARTED
    if recovery.incarnation == replica.incarnation:
        return replica.standing
    damage = _damage(replica, recovery, seen)
    if damage is not None:
        return damage
    if replica.standing is not LogStanding.SOUND:
        # A restart does not bring missing bytes back.
        return replica.standing
    is_new = replica.incarnation is None and not is_listed
    is_whole = is_new or _has_lost_nothing(replica, recovery, seen)
    return LogStanding.SOUND if is_whole else LogStanding.RESTARTED


def _damage(
    replica: RegisteredBroker, recovery: Recovery, seen: LogEnd
) -> LogStanding | None:
    if recovery.is_copy:
        return LogStanding.COPIED
    if _is_emptied(recovery, seen) and not _has_a_past(replica, recovery):
        return LogStanding.WIPED
    if _is_restored(replica, recovery):
        return LogStanding.COPIED
    return LogStanding.LOSSY if recovery.is_lossy else None


def _is_restored(replica: RegisteredBroker, recovery: Recovery) -> bool:
    """
    Whether the start counter went back: an older copy of the store (B1).
    """
    return 0 < replica.counter_max >= recovery.incarnation.counter


def _is_emptied(recovery: Recovery, seen: LogEnd) -> bool:
    return seen.end > 0 >= recovery.position.end


def _has_a_past(replica: RegisteredBroker, recovery: Recovery) -> bool:
    """
    Whether the start counter of a store continues. Then the store is the previous one,
    and a master had it emptied: a new disk starts to count at 1.
    """
    return recovery.incarnation.counter > max(replica.counter_max, 1)


def _has_lost_nothing(
    replica: RegisteredBroker, recovery: Recovery, seen: LogEnd
) -> bool:
    if _is_emptied(recovery, seen):
        return False
    if recovery.acks_flushed:
        return True
    if recovery.incarnation.counter != replica.counter_max + 1:
        # An unreported start in between may have lost the end of the log, and then have
        # stopped cleanly.
        return False
    return recovery.is_clean or (
        recovery.keeps_pages
        and recovery.boot_id == replica.boot_id != ""
        and recovery.position.end >= recovery.published_end >= 0
        and recovery.position >= seen
    )
