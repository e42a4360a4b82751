"""
Runs the bench of the C checksum beside isal's, if that package is installed.

Usage: ``python bench_checksum.py LIBRARY``, or ``make -C tests/native bench``.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys


def rival() -> ctypes.c_void_p:
    """
    Returns the address of isal's CRC-32, or null without the package.
    """
    try:
        found = importlib.util.find_spec("isal.isal_zlib")
    except ModuleNotFoundError:  # the package itself is missing
        found = None
    if found is None or found.origin is None:
        print("package isal is not installed: no rival")
        return ctypes.c_void_p(None)
    function = ctypes.CDLL(found.origin).crc32_gzip_refl
    return ctypes.cast(function, ctypes.c_void_p)


if __name__ == "__main__":
    sys.exit(ctypes.CDLL(sys.argv[1]).bench_checksum(rival()))
