"""
The machine of a run: its description, and the state of its memory.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

__all__ = [
    "Growth",
    "anonymous_bytes",
    "cached_share",
    "describe",
    "drop_cache",
    "growth",
    "load",
    "touch_memory",
    "warm_cache",
]

_PIECE = 16 * 1024 * 1024
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]


def touch_memory(size_bytes: int) -> None:
    """
    Touches this much memory, in a process that ends then.

    A virtual machine gets its memory on first touch, which takes time. It may give free
    memory back to its host after some seconds.
    """
    code = f"""
import mmap
memory = mmap.mmap(-1, {size_bytes})
if hasattr(mmap, "MADV_HUGEPAGE"):
    memory.madvise(mmap.MADV_HUGEPAGE)
for at in range(0, {size_bytes}, mmap.PAGESIZE):
    memory[at] = 1
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def drop_cache(paths: list[Path]) -> None:
    """
    Removes files that are not mapped from the page cache.
    """
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


def warm_cache(paths: list[Path]) -> None:
    """
    Read files into the page cache.
    """
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.read(_PIECE):
                pass


def cached_share(paths: list[Path]) -> float:
    """
    The share of the files' bytes in the page cache, from 0 to 1.
    """
    cached = pages = 0
    for path in paths:
        if not path.stat().st_size:
            continue
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped,
        ):
            states = np.zeros(-(-len(mapped) // mmap.PAGESIZE), np.uint8)
            whole = np.frombuffer(mapped, np.uint8)
            start = whole.ctypes.data
            if _libc.mincore(start, len(mapped), states.ctypes.data):
                raise OSError(ctypes.get_errno(), "mincore")
            del whole  # a mapping with views cannot be closed
            cached += int((states & 1).sum())
            pages += len(states)
    return cached / pages if pages else 0.0


def anonymous_bytes() -> int:
    """
    Resident memory of this process that is in no file.
    """
    status = Path("/proc/self/status").read_text()
    found = re.search(r"^RssAnon:\s+(\d+) kB$", status, re.M)
    assert found
    return int(found[1]) * 1024


class Growth:
    """
    The largest growth of anonymous memory.
    """

    def __init__(self) -> None:
        self.base_bytes = self.peak_bytes = anonymous_bytes()

    @property
    def bytes(self) -> int:
        """
        The peak above the start.
        """
        return self.peak_bytes - self.base_bytes

    def measure(self) -> None:
        """
        Measures once more.
        """
        self.peak_bytes = max(self.peak_bytes, anonymous_bytes())


@contextmanager
def growth(interval_s: float = 0.002) -> Iterator[Growth]:
    """
    Watch this process's memory from a thread of its own.
    """
    seen = Growth()
    stopping = threading.Event()

    def watch() -> None:
        while not stopping.wait(interval_s):
            seen.measure()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        stopping.set()
        thread.join()
        seen.measure()


def describe(folder: Path) -> dict[str, str]:
    """
    The origin of the numbers: machine, kernel, file system, commit.
    """
    processor = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    return {
        "machine": f"{processor[1] if processor else platform.processor()}, "
        f"{os.cpu_count()} processors, "
        f"{int(memory[1]) / 2**20 if memory else 0:.0f} GiB, load {load()}",
        "kernel": platform.release(),
        "file system": _ask("findmnt", "-no", "FSTYPE,OPTIONS", "-T", str(folder)),
        "commit": _ask("git", "-C", str(folder), "describe", "--always", "--dirty"),
        "python": platform.python_version(),
    }


def load() -> str:
    """
    The load average of the last 1, 5 and 15 minutes: what else ran beside a number.
    """
    return ", ".join(f"{value:.1f}" for value in os.getloadavg())


def _ask(*command: str) -> str:
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # a machine without the tool
        return "unknown"
    return " ".join(run.stdout.split()) or "unknown"
