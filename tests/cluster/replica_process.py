"""
A slave as an operator starts it: the command, in a process of its own.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from pathlib import Path
from types import TracebackType

from command_line import PYSTORE
from master_stage import WAIT_MS
from stores import SEGMENT

__all__ = ["ReplicaProcess"]


class ReplicaProcess:
    """
    ``pystore replica``. A context manager, which stops it cleanly.

    Args:
        address: of the master, or of whoever stands before it.
        root: of its store.
        broker_id: its own.
        set_name: of the broker set that it believes to be of.

    Attributes:
        said: its lines on stderr.
    """

    def __init__(
        self,
        address: tuple[str, int],
        root: Path,
        broker_id: int = 2,
        set_name: str = "b",
    ) -> None:
        self.said: list[str] = []
        self._heard = threading.Condition()
        host, port = address
        master = ["--master", f"{host}:{port}", "--segment-size", str(SEGMENT)]
        name = ["--cluster", "c", "--broker-name", set_name]
        self._child = subprocess.Popen(
            [*PYSTORE, "replica", root, *master, *name, "--broker-id", str(broker_id)],
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

    def _read(self) -> None:
        assert self._child.stderr is not None
        for line in self._child.stderr:
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
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGINT)
        return self._end()

    def kill(self) -> None:
        """
        Kills it by SIGKILL.
        """
        self._child.kill()
        self._end()

    def wait(self) -> int:
        """
        Waits until it ends by itself, and returns its exit code.
        """
        return self._end()

    def _end(self) -> int:
        code = self._child.wait(WAIT_MS / 1000)
        self._reading.join()
        if self._child.stderr is not None:
            self._child.stderr.close()
        return code
