"""
Three brokers as processes, and a scripted controller that keeps them at work.

One thread does it all: it takes what the brokers tell, one line after the other,
and answers. Another process may be killed between any two lines.
"""

from __future__ import annotations

import json
import queue
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from cluster.orders import Line, change_of, line_of, member_of, pack_member, pack_set
from cluster.register import Register

from pystore.replicaset import AgreedSet, Member

__all__ = ["BROKERS", "PATIENCE_S", "Brokers"]

BROKERS = (1, 2, 3)
PATIENCE_S = 180
"""How long anything may take on a busy machine."""

_NODE = Path(__file__).with_name("node.py")
_LOST_ANSWERS = 0.1
_STATUS_S = 0.05


@dataclass
class _Process:
    child: subprocess.Popen[bytes]
    reading: threading.Thread
    member: Member | None = None
    status: Line = field(default_factory=dict)


class Brokers:
    """
    A broker set. A context manager, which kills what is still there at its end.

    Args:
        root: where the stores and the acks are.
        draw: decides what is left to chance.

    Attributes:
        register: what the controller decided.
        said: every line for people.
        elections: how many there were.
    """

    def __init__(self, root: Path, draw: random.Random) -> None:
        self._root = root
        self._draw = draw
        self._lines: queue.Queue[tuple[_Process, Line]] = queue.Queue()
        self._running: dict[int, _Process] = {}
        self._address = ""
        self._standing: dict[Member, tuple[int, int]] = {}
        self.register = Register()
        self.said: list[str] = []
        self.elections = 0
        root.mkdir(exist_ok=True)

    def __enter__(self) -> Brokers:
        for broker_id in BROKERS:
            self.start(broker_id)
        self.wait(lambda: len(self.register.living) == len(BROKERS))
        self.register.agreed = AgreedSet(frozenset(self.register.living.values()), 1)
        self._elect()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for broker_id in list(self._running):
            self.kill(broker_id)

    def store(self, broker_id: int) -> Path:
        """
        Returns where a broker's store is.
        """
        return self._root / f"store{broker_id}"

    def acks(self, broker_id: int) -> Path:
        """
        Returns where a broker writes down what was acknowledged by it.
        """
        return self._root / f"acks{broker_id}"

    def acked_bytes(self) -> int:
        """
        Returns how much was written down: it grows with every acknowledgement.
        """
        files = [self.acks(one) for one in BROKERS]
        return sum(path.stat().st_size for path in files if path.exists())

    # -- processes -----------------------------------------------------------

    def start(self, broker_id: int) -> None:
        """
        Starts a broker that does not run.
        """
        store, acks = self.store(broker_id), self.acks(broker_id)
        child = subprocess.Popen(
            [sys.executable, _NODE, store, str(broker_id), acks],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        reading = threading.Thread(target=lambda: self._read(process), daemon=True)
        self._running[broker_id] = process = _Process(child, reading)
        reading.start()

    def kill(self, broker_id: int) -> None:
        """
        Kills a broker by SIGKILL.
        """
        process = self._running.pop(broker_id)
        process.child.kill()
        self._end(process)
        self.register.died(broker_id)
        self._elect()

    def _end(self, process: _Process) -> int:
        child = process.child
        assert child.stdin is not None
        assert child.stdout is not None
        code = child.wait(PATIENCE_S)
        process.reading.join()
        child.stdout.close()
        with suppress(BrokenPipeError):  # it did not read everything
            child.stdin.close()
        return code

    def _read(self, process: _Process) -> None:
        assert process.child.stdout is not None
        for raw in process.child.stdout:
            if raw.endswith(b"\n"):  # a kill may leave half a line
                self._lines.put((process, json.loads(raw)))

    def _order(self, process: _Process, do: str, **what: object) -> None:
        assert process.child.stdin is not None
        with suppress(BrokenPipeError):  # what a dead broker was told does not matter
            process.child.stdin.write(line_of({"do": do, **what}))
            process.child.stdin.flush()

    # -- the controller ------------------------------------------------------

    def pump(self, seconds: float) -> None:
        """
        Deals with what the brokers tell, for so long.
        """
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                process, line = self._lines.get(timeout=left)
            except queue.Empty:
                # No line came.
                return
            if process in self._running.values():
                self._heard(process, line)

    def wait(self, is_so: Callable[[], bool]) -> None:
        """
        Deals with what the brokers tell until something is so.
        """
        until = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < until, f"{self.register}, {self.said[-20:]}"
            self.pump(_STATUS_S)

    def _heard(self, process: _Process, line: Line) -> None:
        match line["told"]:
            case "up":
                process.member = member = member_of(line["member"])
                self.register.living[member.broker_id] = member
                if self.register.master is None:
                    self._elect()
                elif self._address:
                    self._follow(process)
            case "standing" if line["epoch"] == self.register.epoch + 1:
                assert process.member is not None
                self._standing[process.member] = line["last_epoch"], line["end"]
                self._count()
            case "leading":
                self._address = line["address"]
                for one in self._running.values():
                    if one is not process and one.member is not None:
                        self._follow(one)
            case "ask":
                self._answer(process, line)
            case "status" | "resting":
                process.status = line
            case "said":
                assert process.member is not None
                self.said.append(f"{process.member.broker_id}: {line['line']}")
            case "broken":
                raise AssertionError(line["text"])

    def _follow(self, process: _Process) -> None:
        assert self.register.master is not None
        master, epoch = pack_member(self.register.master), self.register.epoch
        self._order(
            process, "follow", master=master, address=self._address, epoch=epoch
        )

    def _elect(self) -> None:
        """
        Asks every eligible broker for its log end, if there is no master.
        """
        if self.register.master is not None:
            return
        self._address = ""
        eligible = self.register.eligible()
        self._standing = {}
        for process in self._running.values():
            if process.member in eligible:
                self._order(process, "stand", epoch=self.register.epoch + 1)

    def _count(self) -> None:
        eligible = self.register.eligible()
        is_over = self.register.master is not None
        if is_over or not eligible or not eligible <= self._standing.keys():
            return
        winner = self.register.elect({one: self._standing[one] for one in eligible})
        self.elections += 1
        agreed = pack_set(self.register.agreed)
        process = self._running[winner.broker_id]
        self._order(process, "lead", epoch=self.register.epoch, set=agreed)

    def _answer(self, process: _Process, line: Line) -> None:
        change = change_of(line["change"])
        fate = self._draw.random()
        if fate < _LOST_ANSWERS:
            return
        taken = self.register.take(change)
        if fate > 1 - _LOST_ANSWERS:
            return
        agreed, refused = None, []
        if isinstance(taken, AgreedSet):
            agreed = pack_set(taken)
        else:
            refused = [pack_member(one) for one in taken]
        attempt = change.attempt
        self._order(process, "answer", attempt=attempt, set=agreed, refused=refused)

    # -- how it stands -------------------------------------------------------

    @property
    def is_complete(self) -> bool:
        """
        Whether every broker runs and is in the set.
        """
        living = frozenset(self.register.living.values())
        return len(living) == len(BROKERS) and living == self.register.agreed.members

    def statuses(self) -> list[Line]:
        """
        Returns how each broker's log stands now.
        """
        for process in self._running.values():
            process.status = {}
            self._order(process, "status")
        self.wait(lambda: all(one.status for one in self._running.values()))
        return [one.status for one in self._running.values()]

    # -- the end -------------------------------------------------------------

    def close(self) -> None:
        """
        Lets all slaves catch up, and closes the stores.
        """
        self.wait(lambda: self.is_complete)
        before = self.acked_bytes()
        self.wait(lambda: self.acked_bytes() > before)
        assert self.register.master is not None
        master = self._running[self.register.master.broker_id]
        master.status = {}
        self._order(master, "rest")
        self.wait(lambda: bool(master.status))
        self.wait(self._is_level)
        slaves = [one for one in self._running.values() if one is not master]
        for process in (*slaves, master):
            self._order(process, "close")
        for process in (*slaves, master):
            assert self._end(process) == 0
        self._running.clear()

    def _is_level(self) -> bool:
        places = [
            (one["last_epoch"], one["end"], one["flushed"], one["confirm"])
            for one in self.statuses()
        ]
        _, end, flushed, confirm = places[0]
        return len(set(places)) == 1 and end == flushed == confirm
