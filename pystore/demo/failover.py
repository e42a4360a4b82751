"""
The replicated part of the demo: a controller and three brokers, a killed master, its
return, a planned switch, and a controller that is killed and starts again.

Everything is a real process on this machine. A writer appends the files' lines with
the ack `all` from the first act to the last. Before the kill both slaves are paused,
and the master takes records with the ack `leader`, which no slave has: they are the
tail that the old master has to cut when it comes back.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pystore.broker.control_client import ControlClient
from pystore.demo.corpus import Corpus
from pystore.demo.recorder import KnownSet, Recorder, broker_name
from pystore.demo.replicas import AgreementReport, StepCallback
from pystore.demo.secured_set import OpenSet, SecuredSet
from pystore.demo.set_processes import (
    SET_NAME,
    BrokerProgram,
    ControllerProgram,
    set_programs,
)
from pystore.demo.store_checks import StoreCheck, check_stores
from pystore.demo.stream_writer import StreamedAck, StreamWriter, append_piece
from pystore.demo.tail_cut import TailCut, read_dead_log
from pystore.demo.timeline import MarkKind, Timeline, TimelineEvent
from pystore.demo.watchers import Watchers
from pystore.demo.workload import AppendJobs
from pystore.demo.zookeeper_root import zookeeper_root
from pystore.errors import UnavailableError
from pystore.text import count_text, seconds_text, size_text

__all__ = [
    "CONTROLLER",
    "KILL",
    "SWITCH",
    "FailoverReport",
    "FailoverSettings",
    "run_failover",
]

KILL, SWITCH, CONTROLLER = "master killed", "planned switch", "controller killed"
"""The names of the gaps that the run measures."""

_BROKERS = (1, 2, 3)
_WAIT_S, _LOOK_S = 60.0, 1.0
_STREAM_LINES, _TAIL_LINES = 128, 4096
_PAUSE_S_MAX = 4.0
"""Of the slaves: heartbeats and leases last longer."""
_SESSION_MS = 4_000
"""The least that ZooKeeper grants by default."""


@dataclass(frozen=True, slots=True)
class FailoverSettings:
    """
    The settings of the replicated part.

    Attributes:
        folder: for stores and files of the processes; it exists.
        controllers: their number; several need `zookeeper`.
        zookeeper: its servers, ``HOST:PORT,...``; empty: the records are in LMDB.
        calm_s: how long the writer is left alone between two acts.
        tail_bytes: bodies that the master takes as `leader` before it is killed: more
            than sockets hold, which deliver to the slaves what they took.
        segment_size: of the logs, in bytes.
        is_secure: with users, proven links and TLS.
    """

    folder: Path
    controllers: int = 1
    zookeeper: str = ""
    calm_s: float = 2.5
    tail_bytes: int = 12 << 20
    segment_size: int = 64 << 20
    is_secure: bool = False


@dataclass(slots=True)
class FailoverReport:
    """
    The result of the replicated part.

    Attributes:
        timeline: of the run.
        records: number of records acknowledged as `all`, each counted once.
        log_bytes: size of these records.
        retries: appends that were refused or had no answer.
        cut: of the old master.
        checks: of the three stores.
        agreement: what Spark found; ``None``: it was not asked.
        seconds: that it took, with the checks.
        picture: the timeline as SVG; ``None``: it was not requested.
    """

    timeline: Timeline
    records: int = 0
    log_bytes: int = 0
    retries: int = 0
    cut: TailCut | None = None
    checks: list[StoreCheck] = field(default_factory=list)
    agreement: AgreementReport | None = None
    seconds: float = 0.0
    picture: Path | None = None

    @property
    def missing(self) -> int:
        """
        Number of acknowledged records that the worst of the stores lacks.
        """
        return max((one.missing for one in self.checks), default=0)

    @property
    def is_good(self) -> bool:
        """
        Whether nothing acknowledged is missing, and the stores are equal.
        """
        return (
            bool(self.checks)
            and all(one.is_good for one in self.checks)
            and len({one.log_bytes for one in self.checks}) == 1
            and (self.cut is None or self.cut.all_records == 0)
            and (self.agreement is None or self.agreement.is_good)
        )


def run_failover(
    settings: FailoverSettings,
    corpus: Corpus,
    tell: Callable[[TimelineEvent], object],
    note: StepCallback,
) -> FailoverReport:
    """
    Runs the replicated part.

    Args:
        settings: of the run.
        corpus: what is appended.
        tell: receives each event of the timeline when it happens, from any thread, one
            at a time.
        note: called with the progress of the checks.

    Raises:
        UnavailableError: a process ended by itself, or something that has to follow did
            not within a minute.
        PystoreError: an append of the tail failed, or a store cannot be read.
    """
    began = time.monotonic()
    timeline = Timeline(_BROKERS)
    recorder = Recorder(timeline, lambda: time.monotonic() - began, tell)
    report = FailoverReport(timeline)
    jobs = AppendJobs(corpus, lines_max=_STREAM_LINES)
    with _processes(settings) as (controllers, brokers, access):
        story = _Story(settings, recorder, controllers, brokers, access)
        sockets = {one.number: one.socket for one in brokers}
        addresses = {one.name: one.address for one in controllers}
        with Watchers(recorder, sockets, addresses, access):
            acks = story.play(jobs, AppendJobs(corpus, lines_max=_TAIL_LINES))
        story.stop()
    report.cut, report.retries = story.cut, story.retries
    report.records = sum(one.count for one in acks)
    report.log_bytes = sum(one.end - one.offset for one in acks)
    stores = [(one.number, one.store) for one in brokers]
    report.checks = check_stores(stores, acks, jobs, note)
    report.seconds = time.monotonic() - began
    return report


@contextmanager
def _processes(
    settings: FailoverSettings,
) -> Iterator[tuple[list[ControllerProgram], list[BrokerProgram], OpenSet]]:
    """
    Makes the processes; all are killed at the end, also after an error.
    """
    folder = settings.folder
    # The path of a socket is short, and that of the folder may be long.
    sockets = Path(tempfile.mkdtemp(prefix="pystore-demo-"))
    try:
        with zookeeper_root(settings.zookeeper) as root:
            records: dict[str, str | int] = {"store": os.fspath(folder / "records")}
            if root:
                records = {
                    "zookeeper": settings.zookeeper,
                    "zookeeperRoot": root,
                    "zookeeperSessionTimeout": _SESSION_MS,
                }
            counts = settings.controllers, len(_BROKERS)
            size = settings.segment_size
            controllers, brokers, access = set_programs(
                folder,
                sockets,
                records,
                counts,
                size,
                secured=partial(_secured, settings) if settings.is_secure else None,
            )
            try:
                yield controllers, brokers, access
            finally:
                for one in (*controllers, *brokers):
                    one.kill()
    finally:
        shutil.rmtree(sockets, ignore_errors=True)


def _secured(
    settings: FailoverSettings, controllers: list[str], brokers: list[str]
) -> SecuredSet:
    folder = settings.folder / "secure"
    return SecuredSet(folder, SET_NAME, controllers, brokers, settings.zookeeper)


@dataclass(frozen=True, slots=True)
class _DeadMaster:
    """
    A killed master: its id, what it acknowledged as `leader` at last, and as `all`.
    """

    broker: int
    tail: list[StreamedAck]
    as_all: list[StreamedAck]


class _Story:
    """
    The acts, one after the other.
    """

    def __init__(
        self,
        settings: FailoverSettings,
        recorder: Recorder,
        controllers: list[ControllerProgram],
        brokers: list[BrokerProgram],
        access: OpenSet,
    ) -> None:
        self._settings = settings
        self._access = access
        self._recorder = recorder
        self._controllers = controllers
        self._brokers = {one.number: one for one in brokers}
        self.cut: TailCut | None = None
        self.retries = 0

    def play(self, jobs: AppendJobs, tail_jobs: AppendJobs) -> list[StreamedAck]:
        """
        Plays all acts, and returns the acknowledged appends.
        """
        self._start()
        sockets = {one.number: one.socket for one in self._brokers.values()}
        with StreamWriter(sockets, jobs, self._recorder.acked) as writer:
            self._await(lambda view: view.acked_by is not None, "a first ack")
            self._calm()
            dead = self._kill_master(tail_jobs, writer)
            self._calm()
            self._bring_back(dead)
            self._calm()
            self._switch(dead.broker)
            self._calm()
            self._lose_controller()
            self._calm()
            writer.stop()
            self.retries = writer.retries
        self._recorder.say("writer", "stops")
        self._await(
            lambda view: len(view.statuses) == len(_BROKERS) and len(view.ends()) == 1,
            "three logs of one length",
        )
        self._recorder.timeline.end_s = self._recorder.now()
        return writer.acks

    def stop(self) -> None:
        """
        Stops all processes cleanly: the slaves first, so that nobody is elected.

        Raises:
            UnavailableError: one does not end well.
        """
        master = self._recorder.view(lambda view: view.master)
        for one in sorted(self._brokers.values(), key=lambda it: it.number == master):
            one.stop()
        for controller in self._controllers:
            controller.stop()

    # -- the acts --------------------------------------------------------------

    def _start(self) -> None:
        say = self._recorder.say
        count = len(self._controllers)
        what = "a controller" if count == 1 else f"{count} controllers"
        if self._settings.zookeeper:
            what += f" over ZooKeeper at {self._settings.zookeeper}"
        say("demo", f"starts {what} and {len(_BROKERS)} brokers on 127.0.0.1")
        if self._settings.is_secure:
            say("demo", "each request is signed, each link proven, all speak TLS")
        for controller in self._controllers:
            controller.start()
        self._await(lambda view: bool(view.leader), "a controller that leads")
        for number in _BROKERS:
            self._start_broker(number)
        self._await(lambda view: view.in_sync() == _BROKERS, "three brokers in sync")

    def _start_broker(self, number: int) -> None:
        self._brokers[number].start()
        self._recorder.release(number, "starting")

        def has_id(view: KnownSet) -> bool:
            return view.statuses.get(number, {}).get("brokerId") is not None

        self._await(has_id, f"an id for {broker_name(number)}")
        found = self._recorder.view(lambda view: view.statuses[number]["brokerId"])
        if found != number:
            raise UnavailableError(f"{broker_name(number)} got the id {found}")

    def _kill_master(self, jobs: AppendJobs, writer: StreamWriter) -> _DeadMaster:
        """
        Pauses the slaves, gives the master a tail that only it has, and kills it.
        """
        old = self._recorder.view(lambda view: view.master)
        assert old is not None
        program = self._brokers[old]
        slaves = [one for one in _BROKERS if one != old]
        names = " and ".join(map(str, slaves))
        self._recorder.say("demo", f"SIGSTOP: brokers {names} are paused")
        for one in slaves:
            self._recorder.hold(one, "paused")
            self._brokers[one].send(signal.SIGSTOP)
        tail = self._append_tail(program, jobs)
        size = size_text(sum(one.end - one.offset for one in tail))
        self._recorder.say(broker_name(old), f"took {size} as `leader`, alone")
        killed_s = self._recorder.say(
            "demo",
            f"SIGKILL: {broker_name(old)}, process {program.pid}; the others go on",
            MarkKind.KILL,
            f"SIGKILL {broker_name(old)}",
        )
        self._recorder.hold(old, "down")
        program.kill()
        for one in slaves:
            self._brokers[one].send(signal.SIGCONT)
            self._recorder.release(one)
        self._await(lambda view: view.acked_by not in {None, old}, "an ack of another")
        self._note_gap(KILL, killed_s)
        as_all = [one for one in writer.acks if one.broker == old]
        return _DeadMaster(old, tail, as_all)

    def _append_tail(
        self, program: BrokerProgram, jobs: AppendJobs
    ) -> list[StreamedAck]:
        tail: list[StreamedAck] = []
        size = 0
        end_s = self._recorder.now() + _PAUSE_S_MAX
        with ControlClient(program.socket) as client:
            while size < self._settings.tail_bytes and self._recorder.now() < end_s:
                number = len(tail) % jobs.count
                ack = append_piece(client, number, jobs.piece(number), "leader")
                tail.append(ack)
                size += ack.end - ack.offset
        return tail

    def _bring_back(self, dead: _DeadMaster) -> None:
        """
        Starts the old master again, and looks at what it cut.
        """
        old, program = dead.broker, self._brokers[dead.broker]
        start = max((one.end for one in dead.as_all), default=0)
        log = read_dead_log(program.store, start)
        self._recorder.say(
            "demo",
            f"starts {broker_name(old)} again; its log ends at {count_text(log.end)}",
            MarkKind.RESTART,
            f"{broker_name(old)} back",
        )
        self._start_broker(old)
        self._await(lambda view: view.in_sync() == _BROKERS, "the old master in sync")
        self.cut = cut = log.cut(old, dead.tail, dead.as_all)
        if cut.offset is None:
            self._recorder.say(broker_name(old), "cut nothing: no record was its alone")
        else:
            self._recorder.say(
                broker_name(old),
                f"cut {size_text(cut.size_bytes)} ({count_text(cut.records)} records) "
                f"above offset {count_text(cut.offset)}; acknowledged as `all` of "
                f"them: {count_text(cut.all_records)}",
            )

    def _switch(self, target: int) -> None:
        """
        Asks the master to hand over, by the command of operators.
        """
        command = [sys.executable, "-m", "pystore", "admin"]
        command += [*self._access.admin_words, "switchMaster"]
        addresses = ";".join(one.address for one in self._controllers)
        command += ["-a", addresses, "-bn", SET_NAME, "-b", str(target)]
        asked_s = self._recorder.say(
            "demo",
            f"pystore admin switchMaster -bn {SET_NAME} -b {target}",
            MarkKind.SWITCH,
            f"switch to {broker_name(target)}",
        )
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_WAIT_S, check=False
        )
        if done.returncode:
            raise UnavailableError(f"switchMaster failed: {done.stderr.strip()}")
        self._await(lambda view: view.acked_by == target, "an ack of the next master")
        self._note_gap(SWITCH, asked_s)

    def _lose_controller(self) -> None:
        """
        Kills the controller that leads, and starts it again after a while.
        """
        leader = self._recorder.view(lambda view: view.leader)
        program = next(one for one in self._controllers if one.address == leader)
        killed_s = self._recorder.say(
            "demo",
            f"SIGKILL: {program.name}, which leads",
            MarkKind.CONTROLLER,
            f"SIGKILL {program.name}",
        )
        program.kill()
        if len(self._controllers) > 1:
            self._await(lambda view: view.leader not in {"", leader}, "another leader")
            self._calm()
        else:
            self._await(lambda view: not view.leader, "the end of the controller")
            self._calm()
        self._recorder.say("demo", f"starts {program.name} again")
        program.start()
        self._await(lambda view: bool(view.leader), "a controller that leads")
        self._note_gap(CONTROLLER, killed_s)

    # -- between them ------------------------------------------------------------

    def _calm(self) -> None:
        """
        Leaves the writer alone; it has to go on.
        """
        end_s = self._recorder.now() + self._settings.calm_s
        self._await(
            lambda _: self._recorder.timeline.acks[-1][0] >= end_s, "acks that go on"
        )

    def _note_gap(self, name: str, since_s: float) -> None:
        until_s = self._recorder.now()
        timeline = self._recorder.timeline
        found = self._recorder.view(lambda _: timeline.longest_gap(since_s, until_s))
        if found is None:
            return
        gap = replace(found, name=name, cause_s=since_s)
        timeline.gaps.append(gap)
        text = f"longest time without an `all` ack: {seconds_text(gap.seconds)}"
        if name == KILL:
            text += f" with the pause, {seconds_text(gap.after_s)} after SIGKILL"
        self._recorder.say("writer", text)

    def _await(self, found: Callable[[KnownSet], bool], what: str) -> None:
        """
        Waits until it holds.

        Raises:
            UnavailableError: it does not hold in time, or a process has ended.
        """
        end_s = self._recorder.now() + _WAIT_S
        while not self._recorder.wait_for(found, _LOOK_S):
            for one in (*self._controllers, *self._brokers.values()):
                one.check()
            if self._recorder.now() > end_s:
                timeline = self._recorder.timeline
                states = ", ".join(
                    f"{broker_name(one)} {timeline.state(one).role}" for one in _BROKERS
                )
                text = f"no sign of {what} within {_WAIT_S:.0f} s: {states}"
                raise UnavailableError(text)
