"""
Small logs for tests: made in an empty folder, started at their beginning.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pystore.core.live_page import LivePage
from pystore.core.log_writer import LogHandle
from pystore.core.options import LogOptions

SEGMENT_SIZE = 65536


def make_root(folder: Path) -> Path:
    """
    Makes the folders that a log needs, and returns their root.
    """
    root = folder / "store"
    (root / "commitlog").mkdir(parents=True)
    (root / "meta" / "tmp").mkdir(parents=True)
    return root


def open_log(root: Path, live: LivePage | None = None, **options: Any) -> LogHandle:
    """
    Opens a log for writing and starts it at its very beginning.
    """
    whole = {"segment_size": SEGMENT_SIZE, "flush_interval_ms": 0} | options
    log = LogHandle(root, LogOptions(writable=True, **whole), live)
    log.start(0, synced_end=0, confirm_offset=0, clean=True)
    return log
