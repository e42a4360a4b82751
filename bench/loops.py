"""
The C loops: built once, run as contenders.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from contest import Contender, Timed
from load import BODY_SIZE, Load

__all__ = ["build", "cost", "encode_loop", "loop", "punch", "sync_loop", "threads"]

_NATIVE = Path(__file__).parent / "native"

NewFolder = Callable[[], Path]


@cache
def build() -> Path:
    """
    Builds the programs, and returns their folder.
    """
    subprocess.run(
        ["make", "-s", "-C", str(_NATIVE)], check=True, capture_output=True, text=True
    )
    return _NATIVE / "build"


def _run(program: str, *arguments: object) -> str:
    command = [str(build() / program), *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _seconds(program: str, *arguments: object) -> float:
    return float(_run(program, *arguments).split()[0])


def loop(mode: str, folder: NewFolder, size_bytes: int, segment: int) -> Contender:
    """
    A loop without records: ``bare``, ``late`` or ``mapped``.
    """

    @contextmanager
    def contend() -> Iterator[Timed]:
        root = folder()
        yield lambda: _seconds("loop", mode, root, size_bytes, segment)

    return contend


def encode_loop(folder: NewFolder, load: Load, segment: int) -> Contender:
    """
    The C loop: encodes, checksums and writes the same records.
    """

    @contextmanager
    def contend() -> Iterator[Timed]:
        root = folder()
        yield lambda: _seconds(
            "loop", "encode", root, load.body_bytes, segment, load.batch, BODY_SIZE
        )

    return contend


def sync_loop(folder: NewFolder, records: int, size: int, segment: int) -> Contender:
    """
    ``pwrite`` and ``fdatasync``, record by record.
    """

    @contextmanager
    def contend() -> Iterator[Timed]:
        root = folder()
        yield lambda: _seconds("loop", "sync", root, records * size, segment, 0, size)

    return contend


def threads(folder: NewFolder, count: int, records: int, segment: int) -> Contender:
    """
    Synchronous appends from threads in C.
    """

    @contextmanager
    def contend() -> Iterator[Timed]:
        root = _log_folders(folder())
        yield lambda: _seconds("threads", root, count, records, BODY_SIZE, segment)

    return contend


def cost(folder: NewFolder, records: int, segment: int) -> Mapping[str, float]:
    """
    The cost of the parts of an append, in ns per record.
    """
    root = _log_folders(folder())
    lines = _run("cost", root, BODY_SIZE, segment, records).splitlines()
    return {name: float(value) for name, value in (line.split() for line in lines)}


def _log_folders(root: Path) -> Path:
    (root / "commitlog").mkdir()
    (root / "meta" / "tmp").mkdir(parents=True)
    return root


def punch(path: Path, offset: int, size: int) -> None:
    """
    Frees the space of a range of a file, which then reads as zero.
    """
    command = ["fallocate", "--punch-hole", "-o", str(offset), "-l", str(size)]
    subprocess.run([*command, str(path)], check=True)
