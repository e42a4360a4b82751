"""
Sets of real brokers, `pystore broker` processes under `pystore controller`, with the
default settings: how long no append gets the ack `all` when the master changes, alone
or together with the leading controller, or when the controller does not hear a slave.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from types import TracebackType

from cluster.proxy import TO_MASTER, TO_SLAVE, Proxy
from lib.broker_process import BrokerProcess, until
from lib.command_line import run
from lib.controller.controller_process import ControllerProcess
from lib.free_ports import free_port

from pystore.errors import PystoreError

__all__ = ["BrokerSet"]

_SETTINGS = """
brokerName = "b"
address = "127.0.0.1:{port}"
store = "{store}"
controllerAddr = "{controller}"
mappedFileSizeCommitLog = 67108864
minInSyncReplicas = {least}
haMaxTimeSlaveNotCatchup = {not_caught_up_ms}
"""
_REST_S = 0.0005
_NOT_CAUGHT_UP_MS = 15_000  # the default
_ACK_MS = 30_000  # longer than every gap that is promised
_HEARD_S = 10  # that a heartbeat is valid
_WAYS = TO_MASTER, TO_SLAVE


class BrokerSet:
    """
    A context manager.

    Args:
        folder: of the stores.
        count: of brokers.
        least: replicas that `all` needs.
        controllers: over the same records; one leads, the others wait.
        not_caught_up_ms: after which the master removes a silent member.

    Attributes:
        acknowledged: the number of appends that `all` acknowledged.
        proxy: between the last broker and the first controller.
    """

    def __init__(
        self,
        folder: Path,
        count: int,
        least: int,
        *,
        controllers: int = 1,
        not_caught_up_ms: int = _NOT_CAUGHT_UP_MS,
    ) -> None:
        self._stack = ExitStack()
        self._records = folder / "records"
        self._next = 0
        self._acked: list[int] = []
        try:
            self._controllers = [
                self._start_controller(f"127.0.0.1:{free_port()}")
                for _ in range(controllers)
            ]
            self._address = ";".join(one.address for one in self._controllers)
            host, _, port = self._controllers[0].address.rpartition(":")
            self.proxy = self._stack.enter_context(Proxy((host, int(port))))
            by_proxy = ":".join(map(str, self.proxy.address))
            self._brokers = [
                self._stack.enter_context(
                    BrokerProcess.of(
                        folder,
                        f"b{number}",
                        _SETTINGS.format(
                            port=free_port(),
                            store=folder / f"b{number}",
                            # The others are not behind the proxy, so a set with
                            # several controllers uses none.
                            controller=by_proxy
                            if controllers == 1 and number == count - 1
                            else self._address,
                            least=least,
                            not_caught_up_ms=not_caught_up_ms,
                        ),
                    )
                )
                for number in range(count)
            ]
            self._await_whole()
        except BaseException:
            # Any error: no process stays.
            self._stack.close()
            raise

    def __enter__(self) -> BrokerSet:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def fail_over(self) -> float:
        """
        Kills the master, and returns the seconds until another broker acknowledged an
        append with `all`. Then the killed one starts again and is in sync.
        """
        master = self._master()
        self._append(master)
        taken_s = self._first_ack_without(master, master.child.kill)
        master.kill()
        master.restart()
        self._await_whole()
        return taken_s

    def fail_over_with_controller(self) -> float:
        """
        Kills the master and the leading controller at once; returns as `fail_over`.
        Then both start again.
        """
        master = self._master()
        self._append(master)
        leader = until(lambda: next((o for o in self._controllers if o.leads), None))

        def kill() -> None:
            leader.child.kill()
            master.child.kill()

        taken_s = self._first_ack_without(master, kill)
        leader.kill()
        self._controllers.remove(leader)
        self._controllers.append(self._start_controller(leader.address))
        master.kill()
        master.restart()
        self._await_whole()
        return taken_s

    def _first_ack_without(
        self, master: BrokerProcess, kill: Callable[[], None]
    ) -> float:
        others = [one for one in self._brokers if one is not master]
        begun_s = time.monotonic()
        kill()
        while not any(self._append(one) for one in others):
            time.sleep(_REST_S)
        return time.monotonic() - begun_s

    def unheard_member(self, seconds: float) -> float:
        """
        Holds all bytes between the controller and a slave that is in the set, while one
        thread appends with `all`; returns the longest time in s between two acks.
        """
        self._hand_over_from(self._brokers[-1])
        return self._gap_of(
            lambda: self._hold(seconds, len(self._brokers)), self._master()
        )

    def unheard_candidate(self, seconds: float) -> float:
        """
        The same with a slave that asks to join the set: it stood still until the master
        removed it and the controller did not hear it any more.
        """
        slave = self._brokers[-1]
        self._hand_over_from(slave)
        count = len(self._brokers)
        slave.child.send_signal(signal.SIGSTOP)
        try:
            self.append()
            until(lambda: len(self._master().status()["syncStateSet"]) < count)
            for way in _WAYS:
                self.proxy.stall(way)
        finally:
            slave.child.send_signal(signal.SIGCONT)
        return self._gap_of(lambda: self._hold(seconds, count - 1), self._master())

    def lost(self) -> int:
        """
        Returns how many appends that `all` acknowledged the master does not have.
        """
        with self._master().client() as client:
            found = {int(one["body"]) for one in client.records()}
        return len(set(self._acked) - found)

    @property
    def acknowledged(self) -> int:
        """
        The number of appends that `all` acknowledged.
        """
        return len(self._acked)

    def append(self) -> None:
        """
        Appends once with `all`.
        """
        until(lambda: self._append(self._master()))

    def _hold(self, seconds: float, members: int) -> None:
        for way in _WAYS:
            self.proxy.stall(way)
        end = self._brokers[-1].status()["endOffset"]
        time.sleep(seconds)
        # It is linked to the master all the time.
        assert self._brokers[-1].status()["endOffset"] > end
        if seconds > _HEARD_S:
            now = self._master().status()
            assert len(now["syncStateSet"]) == members, now
        for way in _WAYS:
            self.proxy.resume(way)

    def _gap_of(self, fault: Callable[[], None], *masters: BrokerProcess) -> float:
        acks: list[float] = []
        is_over = threading.Event()

        def write() -> None:
            while not is_over.is_set():
                if any(self._append(one) for one in masters):
                    acks.append(time.monotonic())

        writer = threading.Thread(target=write)
        writer.start()
        try:
            until(lambda: len(acks) > 50)
            fault()
            count = len(acks)
            until(lambda: len(acks) > count + 50)
        finally:
            is_over.set()
            writer.join()
        self._await_whole()
        return max(after - before for before, after in pairwise(acks))

    def _hand_over_from(self, slave: BrokerProcess) -> None:
        """
        Makes another broker master, if this one is.
        """
        if self._master() is not slave:
            return
        self._order_master(next(one for one in self._brokers if one is not slave))
        until(lambda: self._master() is not slave)
        self._await_whole()

    def _order_master(self, target: BrokerProcess) -> None:
        number = str(target.status()["brokerId"])
        words = ("switchMaster", "-a", self._address, "-bn", "b", "-b", number)
        done = run("admin", *words)
        assert not done.exit_code, done.output

    def _start_controller(self, address: str) -> ControllerProcess:
        words = ("--store", self._records)
        return self._stack.enter_context(ControllerProcess(*words, listen=address))

    def switch(self) -> float:
        """
        Hands the mastership over while one thread appends with `all`; returns the
        longest time in s between two acks.
        """
        master = self._master()
        target = next(one for one in self._brokers if one is not master)
        return self._gap_of(lambda: self._order_master(target), master, target)

    def _append(self, broker: BrokerProcess) -> bool:
        number, self._next = self._next, self._next + 1
        try:
            with broker.client() as client:
                body = b"%0100d" % number
                client.append("t", [body], ack="all", timeout_ms=_ACK_MS)
        except (PystoreError, OSError):
            # It is not the master, or was killed.
            return False
        self._acked.append(number)
        return True

    def _master(self) -> BrokerProcess:
        found: BrokerProcess = until(
            lambda: next(
                (one for one in self._brokers if one.status()["role"] == "master"), None
            )
        )
        return found

    def _await_whole(self) -> None:
        count = len(self._brokers)
        until(lambda: len(self._master().status()["syncStateSet"]) == count)
        until(lambda: not self._master().status()["candidates"])
