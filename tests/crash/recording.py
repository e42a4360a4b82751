"""
Recordings: what a real process did to its files, system call by system call.

`recorder.c` is compiled once per test run and loaded before libc into a child
process. The child appends each call that matters to a trace; here the trace is
read back as a list of effects, in the order in which they happened.
"""

from __future__ import annotations

import enum
import functools
import json
import os
import struct
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Child", "Effect", "Kind", "read_trace", "run_child", "search_path"]

HERE = Path(__file__).parent
_HEAD = struct.Struct("=IiiIqqIIQ")


class Kind(enum.IntEnum):
    """The effects; the numbers are those of recorder.c."""

    MARK = 1
    OPEN = 2
    CLOSE = 3
    WRITE = 4
    SIZE = 5
    ALLOCATE = 6
    RENAME = 7
    REMOVE = 8
    MKDIR = 9
    RMDIR = 10
    SYNC = 11
    MAP = 12
    STORE = 13
    MSYNC = 14
    LINK = 15


class Effect(NamedTuple):
    """One entry of a trace; paths are relative to the recorded root."""

    kind: Kind
    file: int
    result: int
    mode: int
    a: int
    b: int
    path: str
    other: str
    data: bytes

    @property
    def note(self) -> dict[str, Any]:
        """The content of a mark."""
        note: dict[str, Any] = json.loads(self.data)
        return note


def read_trace(path: Path, root: Path) -> list[Effect]:
    """The effects of a trace, in their order."""
    raw = path.read_bytes()
    effects = []
    at = 0
    while at < len(raw):
        kind, file, result, mode, a, b, *sizes = _HEAD.unpack_from(raw, at)
        at += _HEAD.size
        parts = []
        for size in sizes:
            parts.append(raw[at : at + size])
            at += size
        names = [_below(root, part.decode()) for part in parts[:2]]
        effects.append(
            Effect(Kind(kind), file, result, mode, a, b, names[0], names[1], parts[2])
        )
    return effects


def _below(root: Path, name: str) -> str:
    return os.path.relpath(name, root) if name else ""


@functools.cache
def _library() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="recorder-"))
    library = folder / "recorder.so"
    subprocess.run(
        [
            *("cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Wconversion"),
            *("-Werror", "-U_FORTIFY_SOURCE", "-o", library, HERE / "recorder.c"),
            "-lpthread",
        ],
        check=True,
    )
    return library


@dataclass(frozen=True, slots=True)
class Child:
    """
    A process that ran.

    Attributes:
        effects: what it did below the root.
        code: its exit code; ``-9``: it was killed.
        output: what it printed, both streams.
    """

    effects: list[Effect]
    code: int
    output: str


def run_child(
    root: Path,
    script: Path,
    *arguments: str,
    zero_range: bool = True,
    kill_after: int | None = None,
) -> Child:
    """
    Run a Python script and record what it does below ``root``.

    Args:
        root: an absolute path without symbolic links.
        script: of the child.
        arguments: of the script.
        zero_range: whether the file system offers to zero a range, as ext4 does;
            tmpfs does not.
        kill_after: how many effects the child has before it kills itself.
    """
    with tempfile.TemporaryDirectory(dir=root.parent) as folder:
        trace = Path(folder, "trace")
        environment = {
            **os.environ,
            "LD_PRELOAD": str(_library()),
            "PYTHONPATH": os.pathsep.join(search_path()),
            "TRACE_FILE": str(trace),
            "TRACE_ROOT": str(root),
        }
        if zero_range:
            environment["TRACE_ZERO_RANGE"] = "1"
        if kill_after is not None:
            environment["TRACE_KILL_AFTER"] = str(kill_after)
        done = subprocess.run(
            [sys.executable, str(script), *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Child(read_trace(trace, root), done.returncode, done.stdout)


def search_path() -> list[str]:
    """What this process imports from, so that the child tests the same build."""
    standard = sysconfig.get_paths()["stdlib"]
    return [entry for entry in sys.path if entry and not entry.startswith(standard)]
