"""
The demo of AutoRecovery: three hosts with the replicas of four sets and a spare lose a
host, bytes and files, and lose no acknowledged record.

Everything is a real process on this machine.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pystore.compare.run import compare_stores
from pystore.demo.cluster_watch import ClusterWatch
from pystore.demo.corpus import Corpus
from pystore.demo.host_programs import HostedCluster, HostProgram, hosted_cluster
from pystore.demo.hosted_traffic import LogConsumer, SetTraffic, missing_records
from pystore.demo.hosts_recorder import HostsRecorder
from pystore.demo.recovery_story import (
    LAST_HOSTS,
    SETS,
    RecoveryStory,
    StoryFailed,
    StoryResult,
)
from pystore.demo.replicas import StepCallback
from pystore.demo.store_checks import StoreCheck, check_stores
from pystore.demo.timeline import Timeline, TimelineEvent
from pystore.demo.workload import AppendJobs

__all__ = ["RecoveryDemoReport", "RecoveryDemoSettings", "SetCheck", "run_recovery"]

_HOSTS, _DAEMONS = 5, 2
_LINES, _JOBS_APART = 64, 1000
_BOUND_S = 180.0


@dataclass(frozen=True, slots=True)
class RecoveryDemoSettings:
    """
    The settings of the demo of AutoRecovery.

    Attributes:
        folder: for stores and files of the processes; it exists.
        segment_size: of the logs, in bytes.
        fill_segments: how long each log is before the first story, in segments.
        delay_s: how long a replica is dead before it counts as lost.
        bound_s: how long each step of a story may take.
    """

    folder: Path
    segment_size: int = 1 << 20
    fill_segments: int = 8
    delay_s: int = 8
    bound_s: float = _BOUND_S


@dataclass(frozen=True, slots=True)
class SetCheck:
    """
    What was found in the replicas of one set at the end.

    Attributes:
        name: of the set.
        master: the number of the host of its master.
        acknowledged: number of records acknowledged as `all`, each counted once.
        unread: of these, those that the consumer did not get.
        unreadable: of these, those that a new consumer did not get from the master.
        problem: the first gap in the numbers of a queue; empty: there is none.
        stores: of each host that has a replica; the host is its ``broker``.
        differing: the hosts whose logs differ from that of the first one.
    """

    name: str
    master: int
    acknowledged: int
    unread: int
    unreadable: int
    problem: str
    stores: tuple[StoreCheck, ...]
    differing: tuple[int, ...]

    @property
    def missing(self) -> int:
        """
        Number of acknowledged records that the worst of its stores lacks.
        """
        return max((one.missing for one in self.stores), default=0)

    @property
    def is_good(self) -> bool:
        """
        Whether nothing acknowledged is missing or unreadable, and all copies are equal.
        """
        return (
            len(self.stores) == 3
            and self.acknowledged > 0
            and not (self.unread or self.unreadable or self.problem or self.differing)
            and all(one.is_good for one in self.stores)
        )


@dataclass(slots=True)
class RecoveryDemoReport:
    """
    The result of the demo of AutoRecovery.

    Attributes:
        timeline: of the run.
        stories: that came true, in order.
        sets: what was found at the end.
        problem: the story that did not come true; empty: all did.
        retries: appends that were refused or had no answer.
        seconds: that it took, with the checks.
        picture: the timeline as SVG; ``None``: it was not requested.
    """

    timeline: Timeline
    stories: list[StoryResult] = field(default_factory=list)
    sets: list[SetCheck] = field(default_factory=list)
    problem: str = ""
    retries: int = 0
    seconds: float = 0.0
    picture: Path | None = None

    @property
    def records(self) -> int:
        """
        Number of acknowledged records.
        """
        return sum(one.acknowledged for one in self.sets)

    @property
    def missing(self) -> int:
        """
        Number of acknowledged records that a store lacks.
        """
        return sum(one.missing for one in self.sets)

    @property
    def unreadable(self) -> int:
        """
        Number of acknowledged records that cannot be read from a master.
        """
        return sum(one.unreadable for one in self.sets)

    @property
    def is_good(self) -> bool:
        """
        Whether all stories came true, and nothing acknowledged is missing.
        """
        return (
            not self.problem
            and len(self.sets) == len(SETS)
            and all(one.is_good for one in self.sets)
        )


def run_recovery(
    settings: RecoveryDemoSettings,
    corpus: Corpus,
    tell: Callable[[TimelineEvent], object],
    note: StepCallback,
) -> RecoveryDemoReport:
    """
    Runs the demo of AutoRecovery.

    Args:
        settings: of the run.
        corpus: what is appended.
        tell: receives each event of the timeline when it happens, in this thread.
        note: called with the progress of the checks.

    Returns:
        The report; if a story did not come true, it says which.

    Raises:
        UnavailableError: a process ended by itself, or a command failed.
        PystoreError: a store cannot be read.
    """
    began = time.monotonic()
    timeline = Timeline(tuple(range(1, _HOSTS + 1)), lane="host")
    recorder = HostsRecorder(timeline, lambda: time.monotonic() - began, tell)
    report = RecoveryDemoReport(timeline)
    jobs = AppendJobs(corpus, lines_max=_LINES)
    with _processes(settings) as cluster:
        sockets = {one.number: one.socket for one in cluster.hosts.values()}
        traffic = {
            name: SetTraffic(
                name,
                sockets,
                jobs,
                _JOBS_APART * number,
                partial(recorder.acked, name),
            )
            for number, name in enumerate(SETS)
        }
        try:
            reads = _play(settings, cluster, recorder, traffic, report.stories)
        except StoryFailed as error:
            # The report says so, and shows what came true before.
            report.problem = str(error)
        else:
            hosts = [cluster.hosts[one] for one in LAST_HOSTS]
            report.sets = [
                _checked(one, hosts, reads[name], jobs, note)
                for name, one in traffic.items()
            ]
    timeline.end_s = timeline.end_s or recorder.now()
    report.retries = sum(one.retries for one in traffic.values())
    report.seconds = time.monotonic() - began
    return report


@contextmanager
def _processes(settings: RecoveryDemoSettings) -> Iterator[HostedCluster]:
    """
    Makes the processes; all are killed at the end, also after an error.
    """
    # The path of a socket is short, and that of the folder may be long.
    sockets = Path(tempfile.mkdtemp(prefix="pystore-demo-"))
    try:
        counts = _HOSTS, _DAEMONS
        cluster = hosted_cluster(
            settings.folder, sockets, counts, settings.segment_size
        )
        try:
            yield cluster
        finally:
            for one in cluster.programs():
                one.kill()
    finally:
        shutil.rmtree(sockets, ignore_errors=True)


def _play(
    settings: RecoveryDemoSettings,
    cluster: HostedCluster,
    recorder: HostsRecorder,
    traffic: dict[str, SetTraffic],
    results: list[StoryResult],
) -> dict[str, tuple[int, LogConsumer]]:
    """
    Tells all stories, and stops the processes cleanly.

    Returns:
        The number of the host of each set's master, and what a new consumer read there.
    """
    story = RecoveryStory(
        cluster,
        recorder,
        results,
        bound_s=settings.bound_s,
        delay_s=settings.delay_s,
    )
    cluster.controller.start()
    with ClusterWatch(recorder, cluster), ExitStack() as stack:
        story.start()
        for one in traffic.values():
            stack.enter_context(one)
        story.await_logs(traffic, settings.fill_segments * settings.segment_size)
        story.play()
        for one in traffic.values():
            one.stop()
        masters = story.await_end(traffic)
        recorder.timeline.end_s = recorder.now()
        reads = {
            name: (masters[name], one.read_again(settings.bound_s))
            for name, one in traffic.items()
        }
    for program in cluster.daemons:
        program.stop()
    for number in LAST_HOSTS:
        cluster.hosts[number].stop()
    cluster.controller.stop()
    return reads


def _checked(
    traffic: SetTraffic,
    hosts: Sequence[HostProgram],
    read: tuple[int, LogConsumer],
    jobs: AppendJobs,
    note: StepCallback,
) -> SetCheck:
    """
    Looks every acknowledged record up in every store of a set, and compares the stores.
    """
    name, acks = traffic.name, traffic.acks
    stores = [(one.number, one.store(name)) for one in hosts]
    checks = check_stores(stores, acks, jobs, note, who=f"{name} on host")
    first, *others = stores
    master, fresh = read
    return SetCheck(
        name,
        master,
        sum(one.count for one in acks),
        missing_records(acks, traffic.consumer.offsets()),
        missing_records(acks, fresh.offsets()),
        fresh.problem or traffic.consumer.problem,
        tuple(checks),
        tuple(
            number
            for number, store in others
            if not compare_stores(first[1], store).is_identical
        ),
    )
