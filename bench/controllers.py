"""
Controllers in processes of their own, and their cost.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.controller_headers import GetMetadataResponse
from pystore.remoting.fields import decode_fields
from pystore.remoting.framing import CommandReader, encode_frame

__all__ = ["Controller", "controller", "processor_s", "until_served"]

_TICKS = os.sysconf("SC_CLK_TCK")
_PAUSE_S = 0.005
_LISTENS = "pystore controller listens on "


def processor_s(pid: int) -> float:
    """
    Processor time of a process so far, of all threads, in seconds.
    """
    text = Path(f"/proc/{pid}/stat").read_text()
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


@dataclass(frozen=True)
class Controller:
    """
    A running controller.

    Attributes:
        address: ``HOST:PORT`` where it listens.
        pid: of its process.
    """

    address: str
    pid: int

    def processor_s(self) -> float:
        """
        Processor time so far, of all threads, in seconds.
        """
        return processor_s(self.pid)

    def waits_s(self) -> dict[str, float]:
        """
        How long each of its threads was ready so far, and had no processor, in seconds.
        """
        found = {}
        for path in Path(f"/proc/{self.pid}/task").glob("*/schedstat"):
            with suppress(OSError):  # the thread has ended
                found[path.parent.name] = int(path.read_text().split()[1]) / 1e9
        return found

    def memory_bytes(self) -> int:
        """
        The peak of its resident memory, with mapped files.
        """
        return self._memory("VmHWM")

    def resident_bytes(self) -> int:
        """
        Its resident memory now, with mapped files.
        """
        return self._memory("VmRSS")

    def _memory(self, name: str) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(rf"^{name}:\s+(\d+) kB$", status, re.M)
        assert found
        return int(found[1]) * 1024


@contextmanager
def controller(store: Path, *words: str | Path) -> Iterator[Controller]:
    """
    Runs ``pystore controller`` with default settings over LMDB on a free port. It
    listens when the block begins, but may not lead yet.

    Args:
        store: directory of its records.
        *words: more of the command line.
    """
    command = [sys.executable, "-m", "pystore", "controller"]
    process = subprocess.Popen(
        [*command, "--store", str(store), "--listen", "127.0.0.1:0", *map(str, words)],
        env=os.environ | {"PYTHONPATH": ":".join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stderr
    try:
        line = process.stdout.readline()
        assert line.startswith(_LISTENS), process.stderr.read()
        yield Controller(line.removeprefix(_LISTENS).strip(), process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(30)
        errors = process.stderr.read()
        process.stdout.close()
        process.stderr.close()
    assert code == 0, errors


def until_served(address: str, name: str) -> None:
    """
    Polls a controller over one connection until it leads and knows a set.

    Args:
        address: of the controller.
        name: of the set.
    """
    host, _, port = address.rpartition(":")
    names = json.dumps([name]).encode()
    with socket.create_connection((host, int(port)), 10) as link:
        while True:
            answer = _ask(link, RequestCode.CONTROLLER_GET_METADATA_INFO)
            if decode_fields(GetMetadataResponse, answer.ext_fields).is_leader:
                break
            time.sleep(_PAUSE_S)
        answer = _ask(link, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, names)
    assert name.encode() in answer.body, answer


def _ask(link: socket.socket, code: int, body: bytes = b"") -> RemotingCommand:
    link.sendall(encode_frame(RemotingCommand(code, body=body)))
    reader = CommandReader()
    while (answer := reader.take()) is None:
        data = link.recv(1 << 16)
        assert data, "the controller closed the connection"
        reader.feed(data)
    return answer
