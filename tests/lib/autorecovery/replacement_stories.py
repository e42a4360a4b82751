"""
Stories of replacements: a set on three hosts and a spare, and what is asked for.
"""

from __future__ import annotations

from lib.autorecovery.replacement_auditor import Recovery
from lib.autorecovery.replacement_model import SETTINGS, ModelCluster, key_of
from pystore.autorecovery.replacement_record import (
    HostDrain,
    Replacement,
    ReplacementReason,
)
from pystore.autorecovery.replacement_requests import (
    ask_replacement,
    begin_drain,
)
from pystore.autorecovery.settings import RecoverySettings
from pystore.records.memory import MemoryStore

__all__ = [
    "LOST",
    "ask",
    "drain",
    "four_hosts",
    "in_memory",
    "members",
    "only",
    "steps",
]

LOST = ReplacementReason.LOST


def four_hosts() -> ModelCluster:
    """
    Three hosts with a set, and a spare.
    """
    cluster = ModelCluster({"a": "r1", "b": "r2", "c": "r3", "d": "r3"})
    cluster.add_set("set", "a", "b", "c")
    return cluster


def ask(recovery: Recovery, broker_id: int, reason: ReplacementReason = LOST) -> None:
    """
    Asks for the replacement of a broker of the set.
    """
    now_ms = recovery.cluster.now_ms
    key = key_of("set", broker_id)
    assert ask_replacement(recovery.store, key, reason, by="test", now_ms=now_ms)


def drain(recovery: Recovery, host: str) -> None:
    """
    Empties a host that is alive.
    """
    now_ms = recovery.cluster.now_ms
    one = HostDrain(now_ms, "test", with_living=True)
    assert begin_drain(recovery.store, host, one, now_ms)


def members(cluster: ModelCluster) -> dict[str, int]:
    """
    The brokers of the set by host; all are good.
    """
    one = cluster.sets["cluster", "set"]
    assert sorted(one.brokers) == sorted(one.good())
    return {it.host: it.broker_id for it in one.brokers.values()}


def in_memory(cluster: ModelCluster, settings: RecoverySettings = SETTINGS) -> Recovery:
    """
    An Auditor with records in memory.
    """
    return Recovery(MemoryStore(), cluster, settings)


def steps(recovery: Recovery, count: int) -> None:
    """
    Some steps.
    """
    for _ in range(count):
        recovery.step()


def only(recovery: Recovery) -> Replacement:
    """
    The only replacement.
    """
    (one,) = recovery.records.values()
    return one
