"""
The stories of the demo of AutoRecovery, one after the other, while writers and
consumers of all sets go on.

Each story does something to the cluster, waits until AutoRecovery has put it right, and
says what was found and how long it took. One that does not come true in time ends the
demo.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pystore.autorecovery.segment_key import SegmentKey
from pystore.broker.control_client import ControlClient
from pystore.demo.cluster_sight import ClusterSight
from pystore.demo.host_programs import (
    CLUSTER,
    HostedCluster,
    HostProgram,
    ask,
    ask_json,
)
from pystore.demo.hosted_traffic import SetTraffic, missing_records
from pystore.demo.hosts_recorder import HostsRecorder
from pystore.demo.segment_damage import is_whole, rot_one_bit, sealed_in_all
from pystore.demo.timeline import MarkKind
from pystore.errors import PystoreError, UnavailableError
from pystore.fs.layout import segment_path
from pystore.text import seconds_text

__all__ = [
    "LAST_HOSTS",
    "SETS",
    "STORY_NAMES",
    "RecoveryStory",
    "StoryFailed",
    "StoryResult",
]

SETS = ("set-1", "set-2", "set-3", "set-4")

LAST_HOSTS = (2, 4, 5)
"""Those that have replicas at the end."""

_START, _DAMAGE, _DEATH = "start", "two damaged copies", "a host dies"
_CANCEL, _DRAIN, _DEAD = "a drain is cancelled", "a drain", "no good copy"
STORY_NAMES = (_DAMAGE, _DEATH, _CANCEL, _DRAIN, _DEAD)
"""In the order in which they are told."""

_LOOK_S = 0.2
_SLOW_RATE = "500k"
"""Of the host that a cancelled drain fills: the order to cancel comes in time."""
_PACE_S = 0.1


class StoryFailed(UnavailableError):
    """
    A story has not come true in time.
    """


@dataclass(frozen=True, slots=True)
class StoryResult:
    """
    A story that came true.

    Attributes:
        name: of `STORY_NAMES`.
        text: what was found and done, one line.
        seconds: from the first damage or order to the end.
        gap_s: the longest time in which one of the sets acknowledged nothing.
    """

    name: str
    text: str
    seconds: float
    gap_s: float


class RecoveryStory:
    """
    Args:
        cluster: its controller runs.
        recorder: of the run.
        results: gets those of the stories that came true.
        bound_s: how long each wait may take.
        delay_s: of a lost replica.
    """

    def __init__(
        self,
        cluster: HostedCluster,
        recorder: HostsRecorder,
        results: list[StoryResult],
        *,
        bound_s: float,
        delay_s: int,
    ) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._results = results
        self._bound_s = bound_s
        self._delay_s = delay_s
        self._name = _START
        self._living: set[int] = set()
        self._refusal = ""

    # -- the beginning and the end -------------------------------------------------

    def start(self) -> None:
        """
        Starts hosts, sets and daemons: three hosts carry all sets, and one is spare.
        """
        say = self._recorder.say
        names = ", ".join(SETS)
        say("demo", f"starts hosts 1, 2, 3 and the spare 4; 1 to 3 carry {names}")
        for number in (1, 2, 3, 4):
            self._start_host(number)
        self._await(lambda it: len(it.hosts) == 4, "four hosts")
        self._cluster_settings()
        with ThreadPoolExecutor(len(SETS)) as pool:
            list(pool.map(self._add_set, SETS))
        for daemon in self._cluster.daemons:
            daemon.start()
        self._await(lambda it: bool(it.status.auditor), "an Auditor")
        self._await_settled({1, 2, 3}, "three replicas of each set in sync")

    def await_logs(self, traffic: Mapping[str, SetTraffic], size: int) -> None:
        """
        Waits until each log has so many bytes; its writer has less to do from then on.
        """
        self._recorder.say("demo", "a writer and a consumer of each set begin")
        self._poll(
            lambda: all(it.acks and it.acks[-1].end >= size for it in traffic.values()),
            "logs of some segments",
        )
        for one in traffic.values():
            one.rest_s = _PACE_S

    def await_end(self, traffic: Mapping[str, SetTraffic]) -> dict[str, int]:
        """
        Waits until the consumers have read all, and the replicas are equally long.

        Returns:
            The number of the host of each set's master.
        """
        self._recorder.say("demo", "the writers stop, the consumers read to the end")
        self._poll(
            lambda: all(
                missing_records(it.acks, it.consumer.offsets()) == 0
                for it in traffic.values()
            ),
            "consumers that have read all",
        )
        self._poll(self._are_equally_long, "replicas of one length")
        return {one: self._sight().master_host(one) for one in SETS}

    def _are_equally_long(self) -> bool:
        ends: dict[str, set[int]] = {}
        for number in LAST_HOSTS:
            try:
                with ControlClient(self._cluster.hosts[number].socket) as client:
                    for one in client.status():
                        ends.setdefault(one["node"], set()).add(one["endOffset"])
            except PystoreError:
                # It is busy; the next look asks again.
                return False
        return ends.keys() == set(SETS) and all(len(one) == 1 for one in ends.values())

    def play(self) -> None:
        """
        Tells all stories.

        Raises:
            StoryFailed: one did not come true in time.
            UnavailableError: a process ended by itself, or a command failed.
        """
        stories: tuple[Callable[[], tuple[float, str]], ...] = (
            self._damage_two_copies,
            self._lose_host,
            self._cancel_drain,
            self._drain_host,
            self._lose_all_copies,
        )
        for name, story in zip(STORY_NAMES, stories, strict=True):
            self._name = name
            began_s, text = story()
            self._go_on()
            seconds = self._recorder.now() - began_s
            gap = self._recorder.longest_gap(began_s, name)
            gap_s = 0.0
            if gap is not None:
                self._recorder.timeline.gaps.append(gap)
                gap_s = gap.seconds
            self._results.append(StoryResult(name, text, seconds, gap_s))
            self._recorder.say("demo", f"{name}: {text}, in {seconds_text(seconds)}")
        self._name = "the end"
        self._await(lambda it: not it.marks, "an empty queue")

    # -- stories: they return when they began, and what came of it -------------------

    def _damage_two_copies(self) -> tuple[float, str]:
        """
        Of one segment: a bit of the master's copy rots, a slave's file vanishes.
        """
        name = SETS[0]
        key, base = self._chosen(name)
        hosts = self._hosts_of(name)
        master = self._sight().master_host(name)
        slave = next(one for one in hosts if one.number != master)
        rotten = self._cluster.hosts[master].store(name)
        began_s = self._rot(rotten, base, f"host {master}, master of {name}", key)
        segment_path(slave.store(name), base).unlink()
        self._recorder.say(
            "demo",
            f"the file {name}/{base} of host {slave.number}, a slave, vanishes",
            MarkKind.DAMAGE,
            f"a file vanishes on host {slave.number}",
        )
        self._ask("kick", mark="pystore recovery kick: look at all replicas now")
        self._await_whole([one.store(name) for one in hosts], base)
        self._repaired(f"{name}/{base} is whole on hosts {_numbers(hosts)}")
        return began_s, "the only good copy repaired the two others in place"

    def _lose_host(self) -> tuple[float, str]:
        """
        For good; its replicas are made anew on the spare. The fills find a bit that
        has rotten on a master.
        """
        victim = self._cluster.hosts[3]
        sight = self._sight()
        name = next(one for one in SETS[1:] if sight.master_host(one) != victim.number)
        key, base = self._chosen(name)
        master = sight.master_host(name)
        rotten = self._cluster.hosts[master].store(name)
        self._rot(
            rotten, base, f"host {master}, master of {name}; no look is asked for", key
        )
        masters = [one for one in SETS if sight.master_host(one) == victim.number]
        began_s = self._recorder.say(
            "demo",
            f"SIGKILL: host 3, process {victim.pid}, for good; it has {len(SETS)} "
            f"replicas, and is master of {', '.join(masters) or 'none'}",
            MarkKind.KILL,
            "SIGKILL host 3",
        )
        self._recorder.hold(victim.number)
        self._living.discard(victim.number)
        victim.kill()
        self._await(lambda it: bool(it.status.lost), "a lost replica")
        self._await(lambda it: bool(it.replacements), "a replacement after the delay")
        waited_s = self._recorder.now() - began_s
        self._await_settled({1, 2, 4}, "all replicas of host 3 on host 4")
        self._await_whole([rotten], base)
        self._repaired(f"{len(SETS)} replicas are made anew on host 4")
        self._poll(lambda: bool(self._recorder.evidence.get(key)), "the found bit")
        self._forget(victim)
        return began_s, (
            f"{seconds_text(waited_s)} after the death, with a delay of "
            f"{self._delay_s} s, host 4 began to be filled with {len(SETS)} replicas; "
            f"that found and repaired the rotten bit of host {master}"
        )

    def _cancel_drain(self) -> tuple[float, str]:
        """
        A new machine comes, host 1 is to be emptied onto it, and the order is ended.
        """
        first, fresh = self._cluster.hosts[1], self._cluster.hosts[5]
        self._recorder.say(
            "demo",
            "host 5, a new machine, is the next spare",
            MarkKind.RESTART,
            "host 5",
        )
        self._start_host(5)
        self._await(lambda it: 5 in it.hosts and it.hosts[5].is_alive, "host 5")
        rates = ("recovery", "rates", "--socket", os.fspath(fresh.socket))
        ask(*rates, "--in", _SLOW_RATE)
        began_s = self._decommission(first, "--drain")
        self._await(
            lambda it: any(
                one.target == fresh.address and one.new_id
                for one in it.replacements.values()
            ),
            "a new replica on host 5",
        )
        self._decommission(first, "--cancel")
        self._await(
            lambda it: not it.drains and not it.unfinished and not it.hosts[5].replicas,
            "the end of the drain",
        )
        self._await_settled({1, 2, 4}, "all replicas on host 1")
        ask(*rates, "--in", "none")
        self._repaired("host 1 keeps its replicas")
        return began_s, f"host 1 kept {len(SETS)} replicas, and host 5 is empty again"

    def _drain_host(self) -> tuple[float, str]:
        """
        It serves until its last replica is elsewhere; its identity goes last.
        """
        first = self._cluster.hosts[1]
        sight = self._sight()
        masters = [one for one in SETS if sight.master_host(one) == first.number]
        began_s = self._decommission(first, "--drain")
        self._await_settled({2, 4, 5}, "all replicas of host 1 on host 5")
        self._await(
            lambda it: not it.unfinished and not it.hosts[1].replicas, "an empty host"
        )
        self._repaired("host 1 is empty")
        self._living.discard(first.number)
        first.stop()
        self._recorder.say("demo", "SIGTERM: host 1, which is empty, ends")
        self._forget(first)
        self._recorder.hold(first.number)
        return began_s, (
            f"{len(SETS)} replicas went to host 5, {len(masters)} masters handed over, "
            "and no set knows host 1 any more"
        )

    def _lose_all_copies(self) -> tuple[float, str]:
        """
        Of one segment. One of the files is kept aside, and comes back later.
        """
        name = SETS[3]
        key, base = self._chosen(name)
        hosts = self._hosts_of(name)
        kept = hosts[0].root.with_name("kept-segment")
        segment_path(hosts[0].store(name), base).rename(kept)
        for one in hosts[1:]:
            segment_path(one.store(name), base).unlink()
        began_s = self._recorder.say(
            "demo",
            f"the files {name}/{base} of hosts {_numbers(hosts)} vanish: no copy",
            MarkKind.DAMAGE,
            "all copies vanish",
        )
        self._ask("kick", mark="pystore recovery kick")
        self._await(lambda it: key in it.status.contents.dead, "a dead segment")
        dead_s = self._recorder.now() - began_s
        told = ask_json("recovery", "dead", *self._cluster.record_words)["segments"]
        evidence = next(one["evidence"] for one in told if one["segment"] == key.text)
        self._recorder.say("worker", f"{name}/{base} is dead: {evidence}")
        alarm = ask_json("recovery", "status", *self._cluster.record_words, codes=(1,))
        kinds = ", ".join(one["alarm"] for one in alarm["alarms"])
        self._recorder.say("status", f"exit code 1, alarm {kinds}")
        kept.rename(segment_path(hosts[0].store(name), base))
        self._recorder.say(
            "demo",
            f"the file comes back on host {hosts[0].number}",
            MarkKind.ORDER,
            "a copy is offered",
        )
        self._ask("kick", mark="pystore recovery kick")
        self._await(lambda it: key not in it.status.contents.dead, "its return")
        self._await_whole([one.store(name) for one in hosts], base)
        self._repaired(f"{name}/{base} is whole on hosts {_numbers(hosts)}")
        return began_s, (
            f"dead after {seconds_text(dead_s)} with the evidence of each replica; the "
            "offered copy repaired the others"
        )

    # -- what they are made of -------------------------------------------------------

    def _start_host(self, number: int) -> None:
        self._cluster.hosts[number].start()
        self._living.add(number)

    def _cluster_settings(self) -> None:
        self._ask("delay", str(self._delay_s))
        self._ask(
            "settings",
            *("fill_window=64", "worker_slots=4", "replacements_per_host=4"),
            *("backoff_s=1", "backoff_max_s=2", "dead_after=3"),
        )

    def _add_set(self, name: str) -> None:
        """
        Adds its replicas, the first one on another host than those of other sets: the
        first one is master.
        """
        file = self._cluster.records.with_name(f"{name}.conf")
        file.write_text(f"brokerClusterName={CLUSTER}\nbrokerName={name}\n", "utf-8")
        first = SETS.index(name)
        for count in (1, 2, 3):
            host = self._cluster.hosts[(first + count - 1) % 3 + 1]
            where = ("-c", host.address, "--file", os.fspath(file))
            ask("admin", "addBroker", *where)
            what = f"replica {count} of {name} in sync"
            self._await(partial(_has_in_sync, name, count), what)

    def _chosen(self, name: str) -> tuple[SegmentKey, int]:
        """
        Returns a segment that all replicas of a set have sealed, in the middle.
        """
        roots = [one.store(name) for one in self._hosts_of(name)]
        self._poll(lambda: len(sealed_in_all(roots)) > 4, "some sealed segments")
        bases = sealed_in_all(roots)
        base = bases[len(bases) // 2]
        key = SegmentKey(CLUSTER, name, base)
        self._await_whole(roots, base)
        self._recorder.watched.add(key)
        return key, base

    def _rot(self, root: Path, base: int, where: str, key: SegmentKey) -> float:
        rot_one_bit(root, base, 5000)
        at_s = self._recorder.say(
            "demo",
            f"a bit rots in {key.set_name}/{base} of {where}",
            MarkKind.DAMAGE,
            "a bit rots",
        )
        if is_whole(root, base):
            raise StoryFailed(
                f"{self._name}: the rotten bit of {root} is not on the disk"
            )
        return at_s

    def _decommission(self, host: HostProgram, option: str) -> float:
        what = f"pystore recovery decommission host {host.number} {option}"
        at_s = self._recorder.say(
            "demo", what, MarkKind.ORDER, f"{option[2:]} host {host.number}"
        )
        told = self._ordered(host, option)
        moves = sum(" goes to " in line for line in told.splitlines())
        if moves:
            self._recorder.say("demo", f"its plan: {moves} replicas move")
        return at_s

    def _forget(self, host: HostProgram) -> None:
        """
        Lets the identity of a host go that is stopped or dead, and has no replica.
        """
        what = f"pystore recovery decommission host {host.number}"
        self._recorder.say("demo", f"{what}: no set needs it")
        self._poll(
            lambda: "no set knows it any more" in self._ordered(host),
            f"the end of the identity of host {host.number}",
        )
        self._await(lambda it: not it.unfinished, "the end of all replacements")

    def _ordered(self, host: HostProgram, *options: str) -> str:
        """
        Returns what `decommission` prints, once a controller knows who is alive: one
        that was paused asks for patience, as an operator has.
        """
        words = ("recovery", "decommission", *self._both(), host.address, *options)
        told: list[str] = []

        def is_told() -> bool:
            try:
                told.append(ask(*words, codes=(0, 1)))
            except UnavailableError as error:
                # The error of the last try is the reason, if all fail.
                self._refusal = str(error)
            return bool(told)

        self._poll(is_told, "an answer to decommission")
        self._refusal = ""
        return told[-1]

    def _ask(self, *words: str, mark: str = "") -> None:
        if mark:
            self._recorder.say("demo", mark)
        ask("recovery", *words, *self._cluster.record_words)

    def _both(self) -> tuple[str, ...]:
        return *self._cluster.controller_words, *self._cluster.record_words

    def _repaired(self, text: str) -> None:
        self._recorder.say("demo", text, MarkKind.REPAIRED, "right again")

    def _hosts_of(self, name: str) -> list[HostProgram]:
        numbers = sorted(set(self._sight().hosts_of(name).values()))
        return [self._cluster.hosts[one] for one in numbers]

    # -- waits -----------------------------------------------------------------------

    def _sight(self) -> ClusterSight:
        found = self._recorder.sight
        assert found is not None
        return found

    def _go_on(self) -> None:
        """
        Waits until each set has acknowledged a record from now on.
        """
        now_s = self._recorder.now()
        self._poll(
            lambda: self._recorder.acked_since(now_s) == set(SETS),
            "acks of all sets that go on",
        )

    def _await_settled(self, hosts: set[int], what: str) -> None:
        self._await(lambda it: all(it.is_settled(hosts, one) for one in SETS), what)

    def _await_whole(self, roots: Iterable[Path], base: int) -> None:
        stores = list(roots)
        self._poll(
            lambda: all(is_whole(one, base) for one in stores),
            f"whole copies of the segment at {base}",
        )

    def _await(self, found: Callable[[ClusterSight], bool], what: str) -> None:
        self._poll(
            lambda: self._recorder.sight is not None and found(self._recorder.sight),
            what,
        )

    def _poll(self, found: Callable[[], bool], what: str) -> None:
        """
        Waits until it holds.

        Raises:
            StoryFailed: it does not hold in time.
            UnavailableError: a process has ended by itself.
        """
        end_s = self._recorder.now() + self._bound_s
        while not found():
            self._check()
            if self._recorder.now() > end_s:
                why = f" ({self._refusal})" if self._refusal else ""
                raise StoryFailed(
                    f"{self._name}: no sign of {what} within {self._bound_s:g} s{why}"
                )
            self._recorder.wait_until(lambda: False, _LOOK_S)

    def _check(self) -> None:
        hosts = (self._cluster.hosts[one] for one in self._living.copy())
        for one in (self._cluster.controller, *hosts, *self._cluster.daemons):
            one.check()


def _has_in_sync(name: str, count: int, sight: ClusterSight) -> bool:
    one = sight.sets.get(name)
    return one is not None and count == sum(it.is_in_sync for it in one.brokers)


def _numbers(hosts: Iterable[HostProgram]) -> str:
    return ", ".join(str(one.number) for one in hosts)
