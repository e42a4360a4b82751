"""
Files that are in no memory, to count what of them is brought in.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from pathlib import Path

import pytest
from machine import cached_share, drop_cache

__all__ = ["files_of", "make_cold", "pages_in_memory"]


def files_of(root: Path) -> list[Path]:
    """
    The segments and the queues of a store.
    """
    return sorted([*root.glob("commitlog/*"), *root.glob("consumequeue/*/*/*")])


def make_cold(paths: Iterable[Path]) -> None:
    """
    Drops unmapped files from the page cache, or skips the test.
    """
    cold = list(paths)
    drop_cache(cold)
    if pages_in_memory(cold):
        pytest.skip("this file system keeps its files in memory")


def pages_in_memory(paths: Iterable[Path]) -> int:
    """
    How many pages of the files are in the page cache.
    """
    return sum(
        round(cached_share([path]) * -(-path.stat().st_size // mmap.PAGESIZE))
        for path in paths
    )
