"""
The gauges, in the text that Prometheus reads.
"""

from __future__ import annotations

import pytest
from lib.autorecovery.local_set import LocalSet
from lib.autorecovery.marks import GIB
from lib.autorecovery.recoveries import ABSENT, Recovery, damage
from lib.autorecovery.statuses import busy_queue
from lib.remoting.record_stores import put
from lib.store.pairs import SEGMENT

pytest.importorskip("prometheus_client", reason="needs the extra 'metrics'")
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pystore.autorecovery.maintenance import MaintenanceTarget, enter
from pystore.autorecovery.metrics import (
    FRESH_MS,
    RecoveryCollector,
    RepairCollector,
)
from pystore.autorecovery.pauses import PauseKind, PauseTarget, pause
from pystore.autorecovery.repair_counts import RepairCounts
from pystore.autorecovery.repair_verdict import VerdictKind
from pystore.autorecovery.status_view import RecoveryStatus, read_status
from pystore.errors import UnavailableError
from pystore.records.memory import MemoryStore

NOW = 1_000_000


class Scraped:
    """
    A registry with the gauges of a store, and its clock.
    """

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.now_ms = NOW
        self.reads = 0
        self.is_reachable = True
        self._registry = CollectorRegistry()
        self._registry.register(RecoveryCollector(self._read, lambda: self.now_ms))

    def _read(self) -> RecoveryStatus:
        self.reads += 1
        if not self.is_reachable:
            raise UnavailableError("ZooKeeper does not answer")
        return read_status(self.store, self.now_ms)

    def gauges(self) -> dict[str, float]:
        """
        As Prometheus reads them, without the common beginning of their names.
        """
        text = generate_latest(self._registry).decode()
        found = {}
        for family in text_string_to_metric_families(text):
            assert "gauge" == family.type
            for one in family.samples:
                label = "".join(f"/{value}" for value in one.labels.values())
                assert one.name.startswith("pystore_recovery_")
                found[one.name.removeprefix("pystore_recovery_") + label] = one.value
        return found


def test_the_gauges_tell_the_present_state() -> None:
    """
    AR-R15; they fall when the queue does.
    """
    scraped = Scraped()
    queue = busy_queue(scraped.store, NOW)
    pause(scraped.store, _REPAIR, NOW + 90_000, by="ops", now_ms=NOW)
    enter(scraped.store, MaintenanceTarget("h"), NOW + 90_000, by="ops", now_ms=NOW)
    put(scraped.store, "recovery/status/worker/w", b"?")
    scraped.now_ms += 5000
    assert {
        "up": 1,
        "segments/0": 0,
        "segments/1": 0,
        "segments/2": 3,
        "segments/3": 0,
        "segments/4": 0,
        "bytes": 3 * GIB,
        "oldest_mark_age_seconds": 5,
        "claims": 1,
        "dead_segments": 1,
        "lost_replicas": 1,
        "in_maintenance": 1,
        "enabled": 1,
        "auditor": 1,
        "unreadable_records": 1,
        "pause_left_seconds/repair": 85,
        "alarm/brake": 0,
        "alarm/deadSegments": 1,
        "alarm/noAuditor": 0,
        "alarm/noClaim": 0,
        "alarm/oldMark": 0,
        "alarm/unreadableRecords": 1,
    } == scraped.gauges()
    for key in queue.list():
        queue.forget(key)
    queue.disable("ops")
    scraped.now_ms += 90_000
    found = scraped.gauges()
    assert (0, 0, 0, 0) == (
        found["segments/2"],
        found["oldest_mark_age_seconds"],
        found["enabled"],
        found["in_maintenance"],
    )
    assert "pause_left_seconds/repair" not in found


def test_the_queue_is_read_seldom_however_often_it_is_asked() -> None:
    """
    AR-R15: gauges that overload ZooKeeper are taken away again.
    """
    scraped = Scraped()
    for _ in range(10):
        scraped.gauges()
    assert 1 == scraped.reads
    scraped.now_ms += FRESH_MS
    scraped.gauges()
    assert 2 == scraped.reads


def test_without_the_record_store_no_gauge_is_told() -> None:
    """
    What it was would be taken for what it is.
    """
    scraped = Scraped()
    scraped.is_reachable = False
    assert {"up": 0} == scraped.gauges()
    scraped.is_reachable = True
    scraped.now_ms += FRESH_MS
    assert 1 == scraped.gauges()["up"]


_REPAIR = PauseTarget(PauseKind.REPAIR)


def test_counters_tell_what_the_worker_of_this_process_did(
    replicas: LocalSet,
) -> None:
    """
    Repairs, failures, copies and bytes, in the text that Prometheus reads.
    """
    counts = RepairCounts()
    recovery = Recovery(MemoryStore(), replicas, counts=counts)
    registry = CollectorRegistry()
    registry.register(RepairCollector(counts))

    def counters() -> dict[str, float]:
        text = generate_latest(registry).decode()
        return {
            one.name.removeprefix("pystore_recovery_")
            + "".join(f"/{it}" for it in one.labels.values()): one.value
            for family in text_string_to_metric_families(text)
            for one in family.samples
            if not one.name.endswith("_created")
        }

    zero = {f"repairs_total/{kind.name.lower()}": 0.0 for kind in VerdictKind}
    zero |= {"repaired_copies_total": 0, "moved_bytes_total": 0}
    assert zero == counters()

    recovery.mark({2: damage(replicas.replicas[2].root, "missing")})
    recovery.run()
    done = {"repairs_total/done": 1, "repaired_copies_total": 1}
    assert zero | done | {"moved_bytes_total": SEGMENT} == counters()

    replicas.replicas[2].is_silent = True
    recovery.mark({2: ABSENT})
    recovery.later()
    recovery.run()
    failed = {"repairs_total/back_off": 1, "moved_bytes_total": SEGMENT}
    assert zero | done | failed == counters()
