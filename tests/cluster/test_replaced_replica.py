"""
Hosts as processes of which one is lost for good, or emptied: the recovery daemon makes
its replica anew on a spare host, while a writer and a reader go on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lib.broker_process import until
from lib.command_line import run, run_json
from lib.controller.controller_process import ControllerProcess
from lib.host_process import HostProcess
from lib.hosted_traffic import HostedTraffic
from lib.mended_set import fill
from lib.recovery_process import RecoveryProcess

_DONE_S = 240  # a controller knows who is lost 10 s after it leads
_FILLED = 20


class _Hosts:
    """
    A controller, three hosts with the set `b`, and a spare.

    Args:
        folder: of all of them.
        stack: ends the processes.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self.records = folder / "records"
        self.controller = self._controller()
        self.hosts = {
            name: stack.enter_context(
                HostProcess(folder, name, self.controller.address)
            )
            for name in ("one", "two", "three", "spare")
        }
        for number, name in enumerate(("one", "two", "three"), 1):
            assert 0 == self.hosts[name].add().exit_code
            until(lambda: self.in_sync() == list(range(1, number + 1)))  # noqa: B023
        self.ask("delay", "2")
        self.ask("settings", "backoff_s=1", "fill_window=64", "worker_slots=4")

    def _controller(self, listen: str = "127.0.0.1:0") -> ControllerProcess:
        words = ("--store", self.records)
        return self._stack.enter_context(ControllerProcess(*words, listen=listen))

    def restart_controllers(self) -> None:
        """
        Kills all of them, and starts another one, which knows only the records.
        """
        self.controller.child.kill()
        self.controller.child.wait()
        self.controller = self._controller(self.controller.address)

    def known_hosts(self) -> dict[str, bool]:
        """
        Whether each host is alive that the leading controller knows, by address; empty:
        none leads yet.
        """
        words = ("admin", "describeHosts", "-a", self.controller.address, "--json")
        done = run(*words)
        hosts = [] if done.exit_code else json.loads(done.stdout)["hosts"]
        return {one["address"]: one["alive"] for one in hosts}

    def recovery(self, name: str = "recovery") -> RecoveryProcess:
        return self._stack.enter_context(
            RecoveryProcess(
                self.controller.address,
                "--records",
                self.records,
                said=self.folder / f"{name}.log",
            )
        )

    def ask(self, *words: str) -> Any:
        done = run("recovery", *words, "--records", self.records)
        assert 0 == done.exit_code, done.output
        return done.output

    def brokers(self) -> list[dict[str, Any]]:
        """
        Those of the set, as the controller tells it; empty: there is no set yet.
        """
        words = ("admin", "describeSets", "-a", self.controller.address)
        sets = run_json(*words)["sets"]
        return [each for one in sets for each in one["brokers"]]

    def in_sync(self) -> list[int]:
        return [one["brokerId"] for one in self.brokers() if one["inSync"]]

    def members(self) -> list[int]:
        return [one["brokerId"] for one in self.brokers()]

    def check_equal(self, *names: str) -> None:
        """
        Stops hosts, once their replicas are equal, and checks their stores.
        """
        hosts = [self.hosts[name] for name in names]
        until(lambda: len({one.status()["endOffset"] for one in hosts}) == 1)
        for host in hosts:
            assert 0 == host.stop()
        stores = [self.folder / name / "b" for name in names]
        for store in stores:
            (found,) = run_json("verify", store)["stores"]
            assert ("whole", 0) == (found["verdict"], found["missingEntries"]), found
        for store in stores[1:]:
            assert 0 == run("compare", stores[0], store).exit_code


@contextmanager
def _hosts(folder: Path, *, is_filled: bool = True) -> Iterator[_Hosts]:
    with ExitStack() as stack:
        found = _Hosts(folder, stack)
        if is_filled:
            fill(found.hosts["one"], _FILLED)
        yield found


def test_a_lost_host_s_replica_is_made_anew_on_a_spare(tmp_path: Path) -> None:
    """D1, AR-R22: filled to the floor and in the set, then the lost one is cleaned."""
    with _hosts(tmp_path) as found, HostedTraffic([*found.hosts.values()]) as traffic:
        daemon = found.recovery()
        traffic.await_more(50)
        found.hosts["three"].kill()
        until(lambda: found.members() == found.in_sync() == [1, 2, 4], _DONE_S)
        assert 0 == found.hosts["spare"].status()["minOffset"]
        traffic.await_more(50)
        traffic.end()
        assert 0 == traffic.moves
        assert 0 == daemon.stop()
        found.check_equal("one", "two", "spare")


def test_another_daemon_goes_on_where_a_killed_one_replaced(tmp_path: Path) -> None:
    """SIGKILL once the new replica is asked for: there is one, and it is filled."""
    with _hosts(tmp_path) as found, HostedTraffic([*found.hosts.values()]) as traffic:
        first = found.recovery("first")
        traffic.await_more(50)
        found.hosts["three"].kill()
        until(found.hosts["spare"].roles, _DONE_S)
        first.kill()
        second = found.recovery("second")
        until(lambda: found.members() == found.in_sync() == [1, 2, 4], _DONE_S)
        assert {"b"} == found.hosts["spare"].roles().keys()
        traffic.end()
        assert 0 == traffic.moves
        assert 0 == second.stop()
        found.check_equal("one", "two", "spare")


def test_a_host_is_emptied_while_it_serves_by_one_command(tmp_path: Path) -> None:
    """AR-R23, AR-R25: that of the master, which hands over; then its identity goes."""
    with _hosts(tmp_path) as found, HostedTraffic([*found.hosts.values()]) as traffic:
        daemon = found.recovery()
        traffic.await_more(50)
        one, spare = found.hosts["one"], found.hosts["spare"]
        where = ("-a", found.controller.address, one.address)
        # The controller has led for long enough, and knows all hosts.
        until(lambda: 0 == run("recovery", "may-stop", *where).exit_code)
        refused = run("recovery", "decommission", *where, "--records", found.records)
        assert 3 == refused.exit_code
        assert f"host {one.address} is alive" in refused.output
        plan = f"c/b/1 goes to {spare.address}: "
        assert plan in found.ask("decommission", *where, "--drain", "--dry-run")
        assert plan in found.ask("decommission", *where, "--drain")
        until(lambda: found.members() == found.in_sync() == [2, 3, 4], _DONE_S)
        assert {} == one.roles()
        assert {"b"} == spare.roles().keys()
        traffic.end()
        assert 1 == traffic.moves
        assert 0 == one.stop()
        again = ("recovery", "decommission", *where, "--records", found.records)
        until(lambda: "no set knows it any more" in run(*again).output)
        assert 0 == daemon.stop()
        found.check_equal("two", "three", "spare")


def test_a_host_with_a_set_without_records_is_emptied(tmp_path: Path) -> None:
    """AR-R23: there is nothing to fill; the set takes records afterwards."""
    with _hosts(tmp_path, is_filled=False) as found:
        daemon = found.recovery()
        one, spare = found.hosts["one"], found.hosts["spare"]
        where = ("-a", found.controller.address, one.address)
        until(lambda: 0 == run("recovery", "may-stop", *where).exit_code)
        plan = f"c/b/1 goes to {spare.address}: "
        assert plan in found.ask("decommission", *where, "--drain")
        until(lambda: found.members() == found.in_sync() == [2, 3, 4], _DONE_S)
        until(lambda: one.roles() == {}, _DONE_S)
        assert {"b"} == spare.roles().keys()
        assert 0 == one.stop()
        again = ("recovery", "decommission", *where, "--records", found.records)
        until(lambda: "no set knows it any more" in run(*again).output)
        hosts = [found.hosts[name] for name in ("two", "three", "spare")]
        with HostedTraffic(hosts) as traffic:
            traffic.await_more(50)
            traffic.end()
        assert 0 == daemon.stop()
        found.check_equal("two", "three", "spare")


def test_a_dead_host_is_emptied_and_forgotten_after_the_controllers_restarted(
    tmp_path: Path,
) -> None:
    """
    AR-R22, AR-R23: it is dead for good, and no controller that lives has heard of it.
    What they know of it comes from the record store, until it is forgotten.
    """
    with _hosts(tmp_path) as found:
        dead = found.hosts["three"]
        dead.kill()
        found.restart_controllers()
        order = ("decommission", "-a", found.controller.address, dead.address)
        words = ("recovery", *order, "--records", found.records)
        until(lambda: run(*words, "--dry-run").exit_code == 0)
        assert found.known_hosts()[dead.address] is False
        plan = f"c/b/3 goes to {found.hosts['spare'].address}: "
        assert plan in found.ask(*order)
        daemon = found.recovery()
        until(lambda: found.members() == found.in_sync() == [1, 2, 4], _DONE_S)
        until(lambda: "no set knows it any more" in run(*words).output, _DONE_S)
        assert dead.address not in found.known_hosts()
        found.restart_controllers()
        others = {one.address for one in found.hosts.values()} - {dead.address}
        until(lambda: found.known_hosts().keys() == others)
        assert 0 == daemon.stop()
