"""
The input of the demo: every text file of the running Python's standard library.

Each line of a file is a record. The body is the line without its newline, the key is
the file's name and the line's number. The columns are made once and appended several
times.
"""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pystore.message.lines import Strings, split_lines

__all__ = ["Corpus", "TextFile", "read_corpus"]

_SKIPPED = {"__pycache__", "dist-packages", "site-packages"}
_SUFFIX_SIZE_MAX = 12


@dataclass(frozen=True, slots=True)
class TextFile:
    """
    One file as columns.

    Attributes:
        name: its path below the library, with ``/``.
        topic: made from the file's suffix.
        queue_id: queue of the topic.
        bodies: its lines without the newlines.
        keys: ``name:number`` of each line, from 1.
    """

    name: str
    topic: str
    queue_id: int
    bodies: Strings
    keys: Strings

    @property
    def lines(self) -> int:
        """
        Number of lines.
        """
        return len(self.bodies[0]) - 1


@dataclass(frozen=True, slots=True)
class Corpus:
    """
    The files, in the order of their names.
    """

    files: tuple[TextFile, ...]

    @property
    def lines(self) -> int:
        """
        Number of lines of all files.
        """
        return sum(file.lines for file in self.files)

    @property
    def size_bytes(self) -> int:
        """
        Size of all lines without their newlines.
        """
        return sum(len(file.bodies[1]) for file in self.files)

    @property
    def topics(self) -> int:
        """
        Number of topics.
        """
        return len({file.topic for file in self.files})


def read_corpus(root: Path | None = None, queues: int = 4) -> Corpus:
    """
    Reads every text file, that is every file without a NUL byte.

    Args:
        root: of the library; ``None``: the running Python's.
        queues: number of queues of each topic; the files take them in turn.

    Raises:
        OSError: a file cannot be read.
    """
    root = Path(sysconfig.get_path("stdlib")) if root is None else root
    files: list[TextFile] = []
    for path in _paths(root):
        content = path.read_bytes()
        if content and b"\0" not in content:
            name = path.relative_to(root).as_posix()
            files.append(_file(name, len(files) % queues, content))
    return Corpus(tuple(files))


def _paths(root: Path) -> Iterator[Path]:
    for folder, below, names in os.walk(root):
        below[:] = sorted(set(below) - _SKIPPED)
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path


def _file(name: str, queue_id: int, content: bytes) -> TextFile:
    bodies = split_lines(content)
    stem = os.fsencode(name)
    lines = len(bodies[0]) - 1
    keys = [b"%s:%d" % (stem, number) for number in range(1, lines + 1)]
    offsets = np.zeros(lines + 1, np.int64)
    np.cumsum(np.fromiter(map(len, keys), np.int64, lines), out=offsets[1:])
    return TextFile(name, _topic(name), queue_id, bodies, (offsets, b"".join(keys)))


def _topic(name: str) -> str:
    suffix = Path(name).suffix[1:]
    if not re.fullmatch(rf"[A-Za-z0-9]{{1,{_SUFFIX_SIZE_MAX}}}", suffix):
        suffix = "other"
    return f"lines-{suffix}"
