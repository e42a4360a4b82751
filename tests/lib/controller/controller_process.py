"""
``pystore controller`` as an operator starts it: a process that is used over its port.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from lib.command_line import PYSTORE
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.controller_headers import (
    ApplyBrokerIdRequest,
    GetMetadataResponse,
)
from pystore.remoting.errors import NoAnswer, NotSent
from pystore.remoting.fields import decode_fields, encode_fields

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["ControllerProcess"]

PATIENCE_S = 120


class ControllerProcess:
    """
    A context manager, which stops it cleanly.

    Args:
        words: options: where its records are.
        before: the beginning of the command line, for a process that starts it.
        script: what runs in its place; it ends with the command's `main`.
        listen: its address; any free port by default.
        stderr: where its lines go, if not to `said`.

    Attributes:
        child: the process.
        address: where it listens.
        said: its lines on stderr.
    """

    def __init__(
        self,
        *words: str | Path,
        before: tuple[str, ...] = (),
        script: str | None = None,
        listen: str = "127.0.0.1:0",
        stderr: Path | None = None,
    ) -> None:
        self.said: list[str] = []
        self._heard = threading.Condition()
        start = PYSTORE if script is None else (PYSTORE[0], "-c", script)
        command = [*before, *start, "controller", "--listen", listen, *words]
        if stderr is None:
            self.child = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        else:
            with stderr.open("w") as file:
                self.child = subprocess.Popen(
                    command, stdout=subprocess.PIPE, stderr=file, text=True
                )
        self._reading = threading.Thread(target=self._read)
        self._reading.start()
        assert self.child.stdout is not None
        words_said = self.child.stdout.readline().split()
        assert words_said, self._end()
        self.address = words_said[-1]

    def __enter__(self) -> ControllerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.child.poll() is None:
            # It may be stopped, or on a line of the operator's own.
            self.child.send_signal(signal.SIGCONT)
            self.child.terminate()
        self._end()

    def _read(self) -> None:
        for line in self.child.stderr or ():
            with self._heard:
                self.said.append(line)
                self._heard.notify_all()

    def wait_for(self, text: str, after: int = 0) -> str:
        """
        Waits for a line that has this text, and returns it.

        Args:
            text: of the line.
            after: the number of lines to skip.
        """

        def found() -> str | None:
            return next((line for line in self.said[after:] if text in line), None)

        with self._heard:
            line = self._heard.wait_for(found, PATIENCE_S)
        assert line is not None, self.said
        return line

    def ask(
        self,
        code: int,
        header: DataclassInstance | None = None,
        added: Mapping[str, str] | None = None,
    ) -> RemotingCommand:
        """
        Returns the answer to a request, on a connection of its own.
        """
        fields = encode_fields(header) if header is not None else {}

        async def asked() -> RemotingCommand:
            async with RemotingClient() as client:
                request = RemotingCommand(code, ext_fields={**fields, **(added or {})})
                return await client.call(self.address, request)

        return asyncio.run(asked())

    def apply(self, broker_id: int, name: str = "set") -> RemotingCommand:
        """
        Returns the answer to a broker that applies for an id, by a check code that
        is the same each time.
        """
        check = f"127.0.0.1:{10_000 + broker_id};1"
        return self.ask(
            RequestCode.CONTROLLER_APPLY_BROKER_ID,
            ApplyBrokerIdRequest("cluster", name, broker_id, check),
        )

    @property
    def leads(self) -> bool:
        """
        Returns whether it answers that it leads.
        """
        answer = self.ask(RequestCode.CONTROLLER_GET_METADATA_INFO)
        return decode_fields(GetMetadataResponse, answer.ext_fields).is_leader

    def await_lead(self) -> None:
        """
        Waits until it answers that it leads.
        """
        end_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                if self.leads:
                    return
            except (NoAnswer, NotSent):
                # It has no room for one more, or does not answer yet.
                pass
            assert time.monotonic() < end_s, self.said
            time.sleep(0.02)

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
        code = self.child.wait(PATIENCE_S)
        self._reading.join()
        for pipe in (self.child.stdout, self.child.stderr):
            if pipe is not None:
                pipe.close()
        return code
