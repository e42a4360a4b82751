"""
The Auditor ends before or after any commit and any request, and another one goes on.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from lib.autorecovery.replacement_auditor import Recovery
from lib.autorecovery.replacement_model import SIZE, ModelCluster, key_of

from pystore.autorecovery.replacement_record import HostDrain, ReplacementReason
from pystore.autorecovery.replacement_requests import (
    ask_replacement,
    begin_drain,
    cancel_replacement,
    end_drain,
)
from pystore.records.memory import MemoryStore

CALLS_MAX = 200


def _five() -> Recovery:
    cluster = ModelCluster(dict.fromkeys("abcde", ""))
    cluster.add_set("set", "a", "b", "c")
    return Recovery(MemoryStore(), cluster)


def _ask(recovery: Recovery, reason: ReplacementReason) -> None:
    now_ms, key = recovery.cluster.now_ms, key_of("set", 2)
    ask_replacement(recovery.store, key, reason, by="test", now_ms=now_ms)


def _drain(recovery: Recovery, host: str) -> None:
    now_ms = recovery.cluster.now_ms
    one = HostDrain(now_ms, "test", with_living=True)
    begin_drain(recovery.store, host, one, now_ms)


def lost(recovery: Recovery) -> None:
    """
    A host dies, and comes back after its replica was made anew.
    """
    recovery.cluster.kill("b")
    _ask(recovery, ReplacementReason.LOST)
    for _ in range(60):
        recovery.step()
    recovery.cluster.start("b")
    recovery.run()


def returned(recovery: Recovery) -> None:
    """
    It comes back while the new replica is filling.
    """
    recovery.cluster.fill = 1
    recovery.cluster.kill("b")
    _ask(recovery, ReplacementReason.LOST)
    for _ in range(30):
        recovery.step()
    recovery.cluster.start("b")
    recovery.run()


def wiped(recovery: Recovery) -> None:
    """
    A replica is made anew where it was.
    """
    recovery.cluster.wipe("b", "set")
    _ask(recovery, ReplacementReason.WIPED)
    recovery.run()


def drained(recovery: Recovery) -> None:
    """
    The host of the master is emptied.
    """
    _drain(recovery, "a")
    for _ in range(20):
        recovery.step()
    recovery.run()


def cancelled(recovery: Recovery) -> None:
    """
    A drain is cancelled while the new replica is filling.
    """
    recovery.cluster.fill = 1
    _drain(recovery, "b")
    for _ in range(30):
        recovery.step()
    end_drain(recovery.store, "b", "test", recovery.cluster.now_ms)
    recovery.run()


def cancelled_late(recovery: Recovery) -> None:
    """
    A replacement is cancelled as the new replica becomes whole; the old one is dead.
    """
    recovery.cluster.fill = 1
    recovery.cluster.kill("b")
    _ask(recovery, ReplacementReason.LOST)
    for _ in range(30):
        recovery.step()
    cancel_replacement(recovery.store, key_of("set", 2), "test", 1)
    recovery.cluster.fill = SIZE
    for _ in range(60):
        recovery.step()
    recovery.cluster.start("b")
    recovery.run()


def failed(recovery: Recovery) -> None:
    """
    The host that is filled dies, another one takes over, then it comes back.
    """
    recovery.cluster.fill = 1
    _drain(recovery, "b")
    for _ in range(15):
        recovery.step()
    recovery.cluster.kill("d")
    for _ in range(70):
        recovery.step()
    recovery.cluster.fill = SIZE
    for _ in range(60):
        recovery.step()
    recovery.cluster.start("d")
    recovery.run()


STORIES: dict[Callable[[Recovery], None], str] = {
    lost: "acd",
    returned: "abc",
    wiped: "abc",
    drained: "bcd",
    cancelled: "abc",
    cancelled_late: "acd",
    failed: "ace",
}


@pytest.mark.parametrize("story", STORIES, ids=lambda one: one.__name__)
def test_a_crash_anywhere_changes_nothing_in_the_end(
    story: Callable[[Recovery], None],
) -> None:
    """
    Each request is repeated, or its effect is seen; nothing is left over.
    """
    for call in range(CALLS_MAX):
        recovery = _five()
        recovery.crash_at(call)
        story(recovery)
        cluster, one = recovery.cluster, recovery.cluster.sets["cluster", "set"]
        assert sorted(one.brokers) == sorted(one.good()), call
        hosts = sorted(it.host for it in one.brokers.values())
        assert STORIES[story] == "".join(hosts), call
        for host in cluster.hosts.values():
            assert (host.name in hosts) == bool(host.replicas), call
            left = {number for _, number in host.stores} - set(one.brokers)
            # What was a copy once is kept; what was never whole is not.
            assert left <= {1, 2}, call
        if recovery.crashes == 0:
            assert call >= 6
            return
    raise AssertionError("it never ends")
