"""
What a power cut takes from a disk: bytes that no sync had put there.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from lib.store.segment_files import restart_machine

__all__ = ["lose_unsynced"]

_PAGE = 4096


def lose_unsynced(store: Path, synced: int, loss: float, draw: Random) -> None:
    """
    Loses pages of the log, each by chance, and the pages that only the memory had.

    Args:
        store: whose process is dead.
        synced: end of the bytes that are on disk.
        loss: the chance of each page.
        draw: chance.
    """
    log = store / "commitlog"
    if not log.is_dir():
        return
    for path in sorted(log.iterdir()):
        if not path.name.isdigit():
            continue
        base, size = int(path.name), path.stat().st_size
        at = max(0, synced - base)
        with path.open("r+b") as file:
            while at < size:
                end = min((at // _PAGE + 1) * _PAGE, size)
                if draw.random() < loss:
                    file.seek(at)
                    file.write(bytes(end - at))
                at = end
    if (store / "meta" / "live").exists():
        restart_machine(store)
