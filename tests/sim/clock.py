"""
The clocks of virtual processes, in the C library: for the core and for Python.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["restart_with_clock", "set_clock"]

_SOURCE = Path(__file__).with_name("clock.c")
_PRELOAD = "LD_PRELOAD"


def restart_with_clock() -> None:
    """
    Starts this program again, with clocks that can be set, unless it has them. Then
    hashes, and so the orders of sets, are always the same, too.
    """
    if hasattr(ctypes.CDLL(None), "virtual_clock_set"):
        # It is loaded, so neither its file nor its name is needed any more.
        loaded, _, others = os.environ.pop(_PRELOAD, "").partition(" ")
        if others:
            os.environ[_PRELOAD] = others
        if loaded:
            shutil.rmtree(Path(loaded).parent, ignore_errors=True)
        return
    folder = Path(tempfile.mkdtemp(prefix="pystore-clock-"))
    library = folder / "clock.so"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    words = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE)]
    subprocess.run(words, check=True)
    loaded = os.environ.get(_PRELOAD, "")
    os.environ[_PRELOAD] = f"{library} {loaded}".strip()
    os.environ["PYTHONHASHSEED"] = "0"
    os.execv(sys.executable, [sys.executable, *sys.argv])


def set_clock(boot_ns: int, wall_ns: int) -> None:
    """
    Sets the clocks of this process, in ns since its machine started and since 1970.
    """
    _SET(boot_ns, wall_ns)


def _setter() -> Callable[[int, int], object]:
    try:
        found = ctypes.CDLL(None).virtual_clock_set
    except AttributeError:
        # This program has not been started again: no clock of it is set.
        return divmod
    found.argtypes = (ctypes.c_int64, ctypes.c_int64)
    found.restype = None
    return found


_SET = _setter()
