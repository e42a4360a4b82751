"""
What a broker tells of its log. From the opening of its store the controller decides
whether the member may be elected at once (B2).

Source: A15, B1, B2; docs/identity.md.
"""

from __future__ import annotations

from pystore.broker.config import NodeConfig
from pystore.controller.model.commands import Recovery
from pystore.controller.model.log_end import LogBegin, LogEnd
from pystore.ha.replica import Replica
from pystore.ha.role import Role
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.remoting.replica_bodies import EpochCache, EpochRow

__all__ = ["epoch_cache_of", "log_begin_of", "log_end_of", "recovery_of"]


def log_end_of(log: ReplicaLog) -> LogEnd:
    """
    Returns epoch and end of the last bytes.

    Raises:
        PystoreError: the log is closed.
    """
    now = log.log()
    pairs = now.epochs.pairs()
    return LogEnd(pairs[-1][0] if pairs else 0, now.end_offset)


def log_begin_of(log: ReplicaLog) -> LogBegin:
    """
    Returns where the log begins, and whether it lacks records of its set (B11).

    Raises:
        PystoreError: the log is closed.
    """
    now = log.log()
    return LogBegin(now.min_offset if now.has_queue_offsets else -1, now.is_filling)


def recovery_of(log: ReplicaLog) -> Recovery:
    """
    Returns the report of an opening.

    Args:
        log: opened once, for identity and service.
    """
    report, boot = log.recovery, log.writer.boot
    return Recovery(
        log.incarnation,
        boot.boot_id.hex(),
        log_end_of(log),
        -1 if report.published_end is None else report.published_end,
        is_clean=report.is_clean,
        keeps_pages=report.keeps_pages,
        is_copy=report.is_copy,
        is_lossy=report.is_lossy,
        begin=log_begin_of(log),
        starts=log.starts,
    )


def epoch_cache_of(replica: Replica, config: NodeConfig) -> EpochCache:
    """
    Returns the epochs of a replica's log, as the answer to 1007 tells them.

    Raises:
        PystoreError: the log is closed.
    """
    log, standing = replica.log.log(), replica.standing()
    pairs = log.epochs.pairs()
    starts = [start for _, start in pairs]
    # A log that no master wrote to yet has no epochs.
    rows = (
        EpochRow(epoch, start, end)
        for (epoch, start), end in zip(
            pairs, [*starts[1:], log.end_offset], strict=False
        )
    )
    return EpochCache(
        config.cluster,
        config.broker_name,
        0 if standing.role is Role.MASTER else replica.me.broker_id,
        tuple(rows),
        log.end_offset,
    )
