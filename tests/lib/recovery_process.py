"""
``pystore recovery daemon`` as an operator starts it: a process.
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from types import TracebackType

from lib.command_line import PYSTORE

__all__ = ["RecoveryProcess"]

_PATIENCE_S = 30


class RecoveryProcess:
    """
    A context manager, which kills the process if it still runs.

    Args:
        controllers: their addresses.
        records: the options that name the record store.
        said: the file of its lines.
        more: options.
        before: the beginning of the command line, for a process that starts it.

    Attributes:
        child: the process.
    """

    def __init__(
        self,
        controllers: str,
        *records: str | Path,
        said: Path,
        more: tuple[str, ...] = (),
        before: tuple[str, ...] = (),
    ) -> None:
        command = [
            *before,
            *PYSTORE,
            "recovery",
            "daemon",
            "-a",
            controllers,
            *records,
            *more,
        ]
        self._said = said
        with said.open("a") as file:
            self.child = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=file, text=True
            )
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        assert "runs as" in line, self.said

    def __enter__(self) -> RecoveryProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def said(self) -> str:
        """
        What it wrote on stderr.
        """
        return self._said.read_text("utf-8")

    def kill(self) -> None:
        """
        Kills it by SIGKILL. Idempotent.
        """
        self.child.kill()
        self._end()

    def stop(self) -> int:
        """
        Ends it by SIGTERM, and returns the exit code.
        """
        self.child.send_signal(signal.SIGTERM)
        code = self._end()
        assert "Traceback" not in self.said, self.said
        return code

    def _end(self) -> int:
        code = self.child.wait(_PATIENCE_S)
        assert self.child.stdout is not None
        self.child.stdout.close()
        return code
