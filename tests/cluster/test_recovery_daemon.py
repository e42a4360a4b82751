"""
``pystore recovery daemon`` beside brokers that serve, processes all: what is damaged or
missing is found and repaired, and a writer and a reader go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from lib.broker_process import BrokerProcess, node_text, until
from lib.command_line import run, run_json, segment_file
from lib.controller.controller_process import ControllerProcess
from lib.mended_set import SEGMENT, Traffic, damage, fill
from lib.recovery_process import RecoveryProcess

_FILL_S = 180  # a worker looks for work every few seconds
_LOST_S = 120  # a controller knows who is lost 10 s after it leads


class _Set:
    """
    A controller, brokers of one set, and what repairs them.

    Args:
        folder: of all of them.
        stack: ends the processes.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self.records = folder / "records"
        words = ("--store", self.records)
        self.controller = stack.enter_context(ControllerProcess(*words))
        self.brokers: dict[str, BrokerProcess] = {}

    def start(self, name: str, **more: str | int) -> BrokerProcess:
        text = node_text(
            self.folder / name,
            self.controller.address,
            name=name,
            mappedFileSizeCommitLog=SEGMENT,
            **more,
        )
        broker = BrokerProcess.of(self.folder, name, text)
        self.brokers[name] = self._stack.enter_context(broker)
        return broker

    def recovery(self, name: str = "recovery", *more: str) -> RecoveryProcess:
        return self._stack.enter_context(
            RecoveryProcess(
                self.controller.address,
                "--records",
                self.records,
                said=self.folder / f"{name}.log",
                more=more,
            )
        )

    def ask(self, *words: str) -> Any:
        return run_json("recovery", *words, "--records", self.records)

    def check_equal(self) -> None:
        """
        Stops the brokers and checks their stores.
        """
        for broker in self.brokers.values():
            assert 0 == broker.stop()
        first, *others = self.brokers
        for name in self.brokers:
            (found,) = run_json("verify", self.folder / name)["stores"]
            assert ("whole", 0) == (found["verdict"], found["missingEntries"]), found
        for name in others:
            words = ("compare", self.folder / first, self.folder / name)
            assert 0 == run(*words).exit_code


def await_seals(root: Path, count: int) -> None:
    """
    Waits until so many segments of a store are sealed.
    """
    until(lambda: len(list((root / "meta/seals").iterdir())) >= count)


@contextmanager
def _a_set(folder: Path, *names: str) -> Iterator[_Set]:
    with ExitStack() as stack:
        found = _Set(folder, stack)
        for name in names:
            found.start(name)
            found.brokers[names[0]].await_role("master")
        master = found.brokers[names[0]]
        until(lambda: len(master.status()["syncStateSet"]) == len(names))
        yield found


@pytest.mark.parametrize("kind", ["missing", "short"])
def test_a_file_that_vanished_is_found_by_a_check_and_installed(
    tmp_path: Path, kind: str
) -> None:
    """A slave's and the master's; nothing but the daemon repairs them."""
    with _a_set(tmp_path, "one", "two", "three") as found:
        master, slave = found.brokers["one"], found.brokers["two"]
        fill(master, 10)
        for name in found.brokers:
            # Sealed, and with entries of the queues.
            await_seals(tmp_path / name, 9)
        with Traffic(master, slave) as traffic:
            damage(tmp_path / "two", 2 * SEGMENT, kind)
            damage(tmp_path / "one", 5 * SEGMENT, kind)
            daemon = found.recovery()
            for name, base in (("two", 2 * SEGMENT), ("one", 5 * SEGMENT)):
                path = segment_file(tmp_path / name, base)
                until(lambda: path.exists() and path.stat().st_size == SEGMENT)  # noqa: B023
            until(lambda: [] == found.ask("list")["segments"])
            before = traffic.acknowledged
            until(lambda: traffic.acknowledged > before + 100)
        assert [] == traffic.errors
        assert 0 == daemon.stop()
        until(lambda: slave.status()["endOffset"] == master.status()["endOffset"])
        found.check_equal()


def test_a_replica_that_began_late_is_filled_without_an_operator(
    tmp_path: Path,
) -> None:
    """D1: downwards to the floor of its set, by several segments at once."""
    with _a_set(tmp_path, "one", "two") as found:
        master = found.brokers["one"]
        fill(master, 8)
        late = found.start("three", syncFromLastFile="true")
        until(lambda: late.status()["minOffset"] > 0)
        assert late.status()["isFilling"]
        with Traffic(master, master) as traffic:
            daemon = found.recovery()
            until(lambda: late.status()["minOffset"] == 0, _FILL_S)
            until(lambda: not late.status()["isFilling"])
        assert [] == traffic.errors
        until(lambda: [] == found.ask("list")["segments"])
        assert 0 == daemon.stop()
        until(lambda: late.status()["endOffset"] == master.status()["endOffset"])
        found.check_equal()


def test_a_rotten_bit_of_the_master_stops_a_new_replica_only_until_it_is_repaired(
    tmp_path: Path,
) -> None:
    """F3, D5: what the new replica says of its source is evidence against it."""
    with _a_set(tmp_path, "one", "two") as found:
        master = found.brokers["one"]
        fill(master, 8)
        slave = found.brokers["two"]
        until(lambda: slave.status()["confirmOffset"] >= 8 * SEGMENT)
        damage(tmp_path / "one", 3 * SEGMENT, "payload bit")
        new = found.start("three")
        until(lambda: new.status()["problem"])
        daemon = found.recovery()
        until(lambda: new.status()["endOffset"] == master.status()["endOffset"])
        until(lambda: len(master.status()["syncStateSet"]) == 3)
        until(lambda: [] == found.ask("list")["segments"])
        assert not new.status()["problem"]
        assert 0 == daemon.stop()
        found.check_equal()


def test_another_process_goes_on_after_the_auditor_was_killed(tmp_path: Path) -> None:
    """BK-A13; with its claims."""
    with _a_set(tmp_path, "one", "two") as found:
        master, slave = found.brokers["one"], found.brokers["two"]
        fill(master, 6)
        until(lambda: slave.status()["confirmOffset"] >= 6 * SEGMENT)
        first = found.recovery("first")
        until(lambda: "is the Auditor" in first.said)
        second = found.recovery("second")
        first.kill()
        until(lambda: "is the Auditor" in second.said)
        damage(tmp_path / "two", 2 * SEGMENT, "missing")
        assert 0 == run("recovery", "kick", "--records", found.records).exit_code
        until(lambda: segment_file(tmp_path / "two", 2 * SEGMENT).exists())
        until(lambda: [] == found.ask("list")["segments"])
        assert 0 == second.stop()
        found.check_equal()


def test_what_does_not_move_is_explained_with_each_copy(tmp_path: Path) -> None:
    """AR-R18: a segment that no worker takes, and a replica that is lost."""
    with _a_set(tmp_path, "one", "two", "three") as found:
        master, slave = found.brokers["one"], found.brokers["two"]
        fill(master, 6)
        for name in found.brokers:
            await_seals(tmp_path / name, 5)
        damage(tmp_path / "two", 2 * SEGMENT, "missing")
        daemon = found.recovery("auditor", "--slots", "0")
        until(lambda: found.ask("list")["segments"])
        found.brokers["three"].kill()
        until(lambda: found.ask("status")["lost"], _LOST_S)

        words = ("recovery", "explain", "-a", found.controller.address)
        where = ("--records", found.records)
        told = run_json(*words, *where)
        loss, mark = told["explained"]
        assert ([], "loss", "mark") == (told["notes"], loss["kind"], mark["kind"])
        assert "DefaultCluster/b/3" == loss["name"]
        assert loss["state"][0].startswith("it may return: the delay is 600 s, ")
        assert f"DefaultCluster/b/{2 * SEGMENT:020}" == mark["name"]
        assert mark["state"][0].startswith("it waits for a worker since ")
        copies = {it["candidate"]: it for it in mark["candidates"]}
        answers = {name: it["answer"] for name, it in copies.items()}
        assert {"broker 1": "yes", "broker 2": "no", "broker 3": "no"} == answers
        assert "ABSENT" in copies["broker 2"]["text"]
        assert "s of it are left" in copies["broker 3"]["text"]

        address = slave.ready[0].split()[-1]
        for target in (mark["name"], "DefaultCluster/b", address):
            lines = run(*words, *where, target).output.splitlines()
            assert f"mark {mark['name']}: {mark['state'][0][:26]}" in lines[-4]
            assert lines[-3].startswith("  broker 1: yes: ")
        other = run(*words, *where, "127.0.0.9:1")
        assert 3 == other.exit_code
        assert "there is no host '127.0.0.9:1'" in other.stderr
        assert 2 == run(*words, *where, "a/b/c").exit_code
        assert 0 == daemon.stop()


@pytest.mark.parametrize(
    ("kind", "holes"), [("missing", (2,)), ("missing", (2, 5)), ("short", (3,))]
)
def test_an_ill_replica_is_repaired_without_an_operator(
    tmp_path: Path, kind: str, holes: tuple[int, ...]
) -> None:
    """F4: it opens when its segments are whole, follows, and is a member again."""
    with _a_set(tmp_path, "one", "two", "three") as found:
        master, slave = found.brokers["one"], found.brokers["two"]
        fill(master, 8)
        until(lambda: slave.status()["confirmOffset"] >= 8 * SEGMENT)
        daemon = found.recovery()
        until(lambda: "is the Auditor" in daemon.said)
        with Traffic(master, found.brokers["three"]) as traffic:
            slave.kill()
            for hole in holes:
                damage(tmp_path / "two", hole * SEGMENT, kind)
            slave.restart()
            slave.await_role("following")
            assert "this replica is ill" in slave.said
            until(lambda: len(master.status()["syncStateSet"]) == 3)
            until(lambda: [] == found.ask("list")["segments"])
            before = traffic.acknowledged
            until(lambda: traffic.acknowledged > before + 100)
        assert [] == traffic.errors
        assert 0 == daemon.stop()
        until(lambda: slave.status()["endOffset"] == master.status()["endOffset"])
        found.check_equal()


def test_ill_replicas_that_are_killed_during_their_repair_are_repaired(
    tmp_path: Path,
) -> None:
    """
    F4: each lacks what the other one has, and the master a third segment. A process
    that ends amid its repair is ill again, and the rest of it is repaired.
    """
    with _a_set(tmp_path, "one", "two", "three") as found:
        master = found.brokers["one"]
        slaves = [found.brokers[name] for name in ("two", "three")]
        fill(master, 8)
        for name, slave in zip(("two", "three"), slaves, strict=True):
            until(lambda: slave.status()["confirmOffset"] >= 8 * SEGMENT)  # noqa: B023
            await_seals(tmp_path / name, 7)
        await_seals(tmp_path / "one", 7)
        for slave in slaves:
            slave.kill()
        for hole in (1, 2):
            damage(tmp_path / "two", hole * SEGMENT, "missing")
        damage(tmp_path / "three", 5 * SEGMENT, "short")
        for slave in slaves:
            slave.restart()
        slaves[1].await_role("ill")
        damage(tmp_path / "one", 3 * SEGMENT, "missing")
        daemon = found.recovery()
        with Traffic(master, master) as traffic:
            repaired = [segment_file(tmp_path / "two", it * SEGMENT) for it in (1, 2)]
            until(lambda: any(path.exists() for path in repaired))
            slaves[0].kill()
            slaves[0].restart()
            for slave in slaves:
                slave.await_role("following")
            until(lambda: len(master.status()["syncStateSet"]) == 3)
            until(lambda: [] == found.ask("list")["segments"])
        assert [] == traffic.errors
        assert segment_file(tmp_path / "one", 3 * SEGMENT).exists()
        assert 0 == daemon.stop()
        for slave in slaves:
            until(lambda: slave.status()["endOffset"] == master.status()["endOffset"])  # noqa: B023
        found.check_equal()
