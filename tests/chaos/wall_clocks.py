"""
Wall clocks of processes, which step when they are told.
"""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

__all__ = ["WallClocks"]

_SOURCE = Path(__file__).with_name("wall_clock.c")


class WallClocks:
    """
    One clock for each name. Any thread.

    Args:
        folder: takes the library and the offsets.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self._library = self._folder / "wall_clock.so"
        words = ("-O2", "-shared", "-fPIC", "-o", self._library, _SOURCE)
        subprocess.run([os.environ.get("CC", "cc"), *words], check=True)

    def before(self, name: str) -> tuple[str, ...]:
        """
        Returns the beginning of a command that goes by this clock.
        """
        self.step(name, 0)
        path = self._path(name)
        return ("env", f"LD_PRELOAD={self._library}", f"CHAOS_WALL_CLOCK={path}")

    def step(self, name: str, seconds: float) -> None:
        """
        From now on the clock is so far ahead of the right time.
        """
        path = self._path(name)
        # In place: processes have it mapped.
        with path.open("r+b" if path.exists() else "wb") as file:
            file.write(struct.pack("=q", int(seconds * 1e9)))

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.clock"
