"""
The standing of a log after a restart of its broker. Pure.

A store names the start that controllers registered last, and its later ones. So the
next start of the recorded process is known, whatever its number, and a copy is told
from the store of which it is one: the copy has another start first. Stores of earlier
versions name none; there the number of the start decides.

Source: B1, B2, B4, A15; docs/identity.md.
"""

from __future__ import annotations

from dataclasses import replace

from pystore.controller.model.commands import Recovery
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.replica import LogStanding, RegisteredBroker

__all__ = ["is_return", "standing_of"]


def is_return(replica: RegisteredBroker, recovery: Recovery | None) -> bool:
    """
    Returns whether a process has the store of the broker that gave way to another one:
    no operator has to vouch for it.

    Args:
        replica: as the previous process left it.
        recovery: the report of the process; ``None``: a Java broker.
    """
    original = replica.original
    if recovery is None or original is None or recovery.is_copy:
        return False
    return original.incarnation in (*recovery.starts, recovery.incarnation)


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
    original = replica.original
    if original is not None and is_return(replica, recovery):
        replica = replace(
            replica,
            incarnation=original.incarnation,
            counter_max=original.counter_max,
            boot_id=original.boot_id,
            standing=original.standing,
        )
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
    if _is_another(replica, recovery):
        return LogStanding.COPIED
    return LogStanding.LOSSY if recovery.is_lossy else None


def _is_next(replica: RegisteredBroker, recovery: Recovery) -> bool:
    """
    Whether the store had the recorded start.
    """
    return replica.incarnation in recovery.starts


def _is_another(replica: RegisteredBroker, recovery: Recovery) -> bool:
    """
    Whether the store is another one: an older copy, whose start counter went back, or
    one that was found to be another one before (B1).
    """
    if _is_next(replica, recovery):
        return False
    if replica.strange in (*recovery.starts, recovery.incarnation):
        return True
    return 0 < replica.counter_max >= recovery.incarnation.counter


def _is_emptied(recovery: Recovery, seen: LogEnd) -> bool:
    return seen.end > 0 >= recovery.position.end


def _has_a_past(replica: RegisteredBroker, recovery: Recovery) -> bool:
    """
    Whether the starts of a store continue. Then the store is the previous one, and a
    master had it emptied: a new disk starts to count at 1.
    """
    if _is_next(replica, recovery):
        return True
    return recovery.incarnation.counter > max(replica.counter_max, 1)


def _has_lost_nothing(
    replica: RegisteredBroker, recovery: Recovery, seen: LogEnd
) -> bool:
    if _is_emptied(recovery, seen):
        return False
    if recovery.acks_flushed:
        return True
    if not _follows_at_once(replica, recovery):
        # An unreported start in between may have lost the end of the log, and then have
        # stopped cleanly.
        return False
    return recovery.is_clean or (
        recovery.keeps_pages
        and recovery.boot_id == replica.boot_id != ""
        and recovery.position.end >= recovery.published_end >= 0
        and recovery.position >= seen
    )


def _follows_at_once(replica: RegisteredBroker, recovery: Recovery) -> bool:
    if recovery.starts:
        return recovery.starts[-1] == replica.incarnation
    return recovery.incarnation.counter == replica.counter_max + 1
