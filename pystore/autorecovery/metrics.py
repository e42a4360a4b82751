"""
Gauges of the present state for Prometheus, and counters of what the worker of this
process has done. They need the extra ``metrics``.

A gauge tells what is now: it falls when the queue does, and there is none while the
record store cannot be read, but for ``pystore_recovery_up``. Reading the queue costs
ZooKeeper a request for each record, so it is read at most every `FRESH_MS`, however
often it is asked.

Source: AR-R15; docs/autorecovery.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from pystore.autorecovery.alarms import AlarmKind, alarms_of
from pystore.autorecovery.repair_counts import RepairCounts
from pystore.autorecovery.status_view import RecoveryStatus
from pystore.errors import PystoreError

__all__ = ["FRESH_MS", "RecoveryCollector", "RepairCollector"]

FRESH_MS = 30_000
"""How old the told state may be."""

_PREFIX = "pystore_recovery"

_TOLD = {
    "misplaced": "Replicas that share a rack, while another rack has room.",
    "overreplicated": "Sets that have more replicas than an operator wants.",
}


class RecoveryCollector(Collector):
    """
    The gauges, to be registered with a registry of `prometheus_client`. Any thread.

    Args:
        read: returns the present state.
        clock_ms: returns milliseconds of a clock that never steps back.
    """

    def __init__(
        self, read: Callable[[], RecoveryStatus], clock_ms: Callable[[], int]
    ) -> None:
        self._read = read
        self._clock_ms = clock_ms
        self._known: tuple[int, RecoveryStatus | None] | None = None

    def describe(self) -> list[GaugeMetricFamily]:
        """
        Returns no description: a registry would read the queue to get one.
        """
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """
        Yields the gauges.
        """
        status = self._status()
        yield _gauge("up", "Whether the record store can be read.", status is not None)
        if status is not None:
            yield from _gauges(status)

    def _status(self) -> RecoveryStatus | None:
        known, now_ms = self._known, self._clock_ms()
        if known is not None and now_ms - known[0] < FRESH_MS:
            return known[1]
        status: RecoveryStatus | None = None
        # A gauge of earlier would be wrong: that it is missing is the news.
        with contextlib.suppress(PystoreError):
            status = self._read()
        self._known = now_ms, status
        return status


class RepairCollector(Collector):
    """
    The counters of the worker of this process, to be registered as `RecoveryCollector`
    is. They begin at 0 with the process. Any thread.

    Args:
        counts: of `pystore.autorecovery.worker_threads.WorkerThreads`.
    """

    def __init__(self, counts: RepairCounts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[CounterMetricFamily]:
        """
        Yields the counters.
        """
        ends = CounterMetricFamily(
            f"{_PREFIX}_repairs",
            "Claims of segments that ended, by how; back_off and bury are failures.",
            labels=["end"],
        )
        for kind, count in self._counts.ends.items():
            ends.add_metric([kind.name.lower()], count)
        yield ends
        yield CounterMetricFamily(
            f"{_PREFIX}_repaired_copies",
            "Copies of segments that were made right.",
            self._counts.repaired_copies,
        )
        yield CounterMetricFamily(
            f"{_PREFIX}_moved_bytes",
            "Bytes of blocks that went into copies.",
            self._counts.moved_bytes,
        )


def _gauges(status: RecoveryStatus) -> Iterator[GaugeMetricFamily]:
    summary = status.summary
    marks = GaugeMetricFamily(
        f"{_PREFIX}_segments",
        "Segments that lack a good copy, by priority; 0 is the most urgent.",
        labels=["priority"],
    )
    for priority, count in summary.marks.items():
        marks.add_metric([str(int(priority))], count)
    yield marks
    yield _gauge("bytes", "Bytes of these segments.", summary.size)
    oldest = summary.oldest_first_ms
    age_ms = 0 if oldest is None else max(0, status.at_ms - oldest)
    yield _gauge("oldest_mark_age_seconds", "Age of the oldest mark.", age_ms / 1000)
    yield _gauge("claims", "Segments that are being repaired.", summary.claims)
    yield _gauge("dead_segments", "Segments without a good copy.", summary.dead)
    yield _gauge("lost_replicas", "Replicas that are dead.", len(status.lost))
    for name, text in _TOLD.items():
        number = status.told(name)
        if number is not None:
            yield _gauge(name, text, number)
    away = sum(status.at_ms < one.until_ms for one in status.maintenance.values())
    yield _gauge("in_maintenance", "Hosts and replicas that may be away.", away)
    yield _gauge("enabled", "Whether taking is enabled.", summary.is_enabled)
    yield _gauge("auditor", "Whether there is an Auditor.", bool(status.auditor))
    damaged = len(status.damaged)
    yield _gauge("unreadable_records", "Records that cannot be read.", damaged)
    paused = GaugeMetricFamily(
        f"{_PREFIX}_pause_left_seconds",
        "How long a pause goes on, by its target.",
        labels=["target"],
    )
    for target, one in status.pauses.entries.items():
        paused.add_metric([target.text], (one.until_ms - status.at_ms) / 1000)
    yield paused
    alarms = GaugeMetricFamily(
        f"{_PREFIX}_alarm", "Whether there is an alarm, by its name.", labels=["alarm"]
    )
    told = {one.kind for one in alarms_of(status)}
    for kind in AlarmKind:
        alarms.add_metric([kind.value], kind in told)
    yield alarms


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_PREFIX}_{name}", text, value)
