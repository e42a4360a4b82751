"""
A set of two brokers in processes of their own, whose master is killed again and again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["MortalSet"]


class _Process:
    """
    One `broker_child.py`.
    """

    def __init__(self, controller: str, name: str, broker_id: int) -> None:
        path = Path(__file__).with_name("broker_child.py")
        self._process = subprocess.Popen(
            [sys.executable, str(path), controller, name, str(broker_id)],
            env=os.environ | {"PYTHONPATH": ":".join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.broker_id = self.until("started")["started"]

    def until(self, kind: str) -> dict[str, Any]:
        """
        The next event of a kind.
        """
        assert self._process.stdout
        while line := self._process.stdout.readline():
            event: dict[str, Any] = json.loads(line)
            if kind in event:
                return event
        raise AssertionError("the broker ended")

    def ask_for(self, *broker_ids: int) -> None:
        """
        As master, take these into the set.
        """
        assert self._process.stdin
        self._process.stdin.write(json.dumps(broker_ids) + "\n")
        self._process.stdin.flush()
        assert self.until("in sync")["in sync"] == len(broker_ids)

    def kill(self) -> int:
        """
        End it by SIGKILL; returns when, in ns of the monotonic clock.
        """
        at_ns = time.monotonic_ns()
        self._process.kill()
        return at_ns

    def close_all(self) -> None:
        """
        It is dead already, or is killed now.
        """
        assert self._process.stdin
        assert self._process.stdout
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


class MortalSet:
    """
    Two brokers, both in sync. A context manager.

    Args:
        controller: ``HOST:PORT``.
        name: of the set; no controller knows it yet.
    """

    def __init__(self, controller: str, name: str) -> None:
        self._place = controller, name
        self._master = _Process(controller, name, 0)
        self._slave = _Process(controller, name, 0)
        self._join()

    def __enter__(self) -> MortalSet:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._master.close_all()
        self._slave.close_all()

    def fail_over(self) -> float:
        """
        Kill the master; seconds until the other one was told that it is master. Then
        the killed one starts again and follows.
        """
        dead, heir = self._master, self._slave
        killed_ns = dead.kill()
        told = heir.until("master")
        assert told["master"] == heir.broker_id, told
        dead.close_all()
        self._master = heir
        self._slave = _Process(*self._place, dead.broker_id)
        self._join()
        at_ns: int = told["at_ns"]
        return (at_ns - killed_ns) / 1e9

    def _join(self) -> None:
        self._master.ask_for(self._master.broker_id, self._slave.broker_id)
