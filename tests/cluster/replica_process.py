"""
A slave as an operator starts it: the command, in a process of its own.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from pathlib import Path
from types import TracebackType

from lib.command_line import PYSTORE
from lib.ha.master_fixture import WAIT_MS
from lib.store.stores import SEGMENT

__all__ = ["QUICK", "ReplicaProcess"]


QUICK = """
from pystore.cli import main
from pystore.ha.slave.backoff import BackOff

BackOff.__init__.__defaults__ = (20, 200)
main()
"""
"""The command, with short waits between two links."""


class ReplicaProcess:
    """
    ``pystore replica``. A context manager, which stops it cleanly.

    Args:
        address: of the master, or of the proxy before it.
        root: of its store.
        broker_id: its own.
        set_name: of the broker set that it believes to be of.
        *wishes: more options of the command.
        before: the beginning of the command line, for a process that starts it.
        script: what runs; it ends with the command's `main`.

    Attributes:
        child: the process.
        said: its lines on stderr.
    """

    def __init__(
        self,
        address: tuple[str, int],
        root: Path,
        broker_id: int = 2,
        set_name: str = "b",
        *wishes: str,
        before: tuple[str, ...] = (),
        script: str = QUICK,
    ) -> None:
        self.said: list[str] = []
        self._heard = threading.Condition()
        host, port = address
        master = ["--master", f"{host}:{port}", "--segment-size", str(SEGMENT)]
        name = ["--cluster", "c", "--broker-name", set_name]
        start = [*before, PYSTORE[0], "-c", script]
        who = [*name, "--broker-id", str(broker_id)]
        self.child = subprocess.Popen(
            [*start, "replica", root, *master, *who, *wishes],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def __enter__(self) -> ReplicaProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if error is not None:
            print("the replica said:", *self.said)

    def _read(self) -> None:
        assert self.child.stderr is not None
        for line in self.child.stderr:
            with self._heard:
                self.said.append(line)
                self._heard.notify_all()

    def wait_for(self, text: str) -> str:
        """
        Waits for a line that has this text, and returns it.
        """

        def found() -> str | None:
            return next((line for line in self.said if text in line), None)

        with self._heard:
            line = self._heard.wait_for(found, WAIT_MS / 1000)
        assert line is not None, self.said
        return line

    def stop(self) -> int:
        """
        Stops it as Ctrl-C does, and returns its exit code; again is fine.
        """
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGINT)
        return self._end()

    def kill(self) -> None:
        """
        Kills it by SIGKILL.
        """
        self.child.kill()
        self._end()

    def wait(self) -> int:
        """
        Waits until it ends by itself, and returns its exit code.
        """
        return self._end()

    def _end(self) -> int:
        code = self.child.wait(WAIT_MS / 1000)
        self._reading.join()
        if self.child.stderr is not None:
            self.child.stderr.close()
        return code
