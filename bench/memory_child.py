"""
A process that does the work of other benches and measures its own memory.

Usage: memory_child.py NEW_FOLDER CLOSED_STORE BYTES SEGMENT; prints, as JSON, the
growth of anonymous memory since the imports, at most, up to the end of each step.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from load import TOPIC, Load
from machine import growth
from writers import WAYS

from pystore.recovery.survey import CHECKS
from pystore.store.commit_log import CommitLog
from pystore.store.store import Store


def _append(log: CommitLog, size_bytes: int) -> None:
    for way, batch in (("columns", 1024), ("batch", 64), ("single", 1)):
        WAYS[way](log, Load.of(size_bytes, batch, 100_000))
    log.sync()


def _append_synced(log: CommitLog) -> None:
    message = Load(1, 1).messages[0]

    def work() -> None:
        for _ in range(10):
            log.append(message, "leader-synced")

    threads = [threading.Thread(target=work) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _scan(root: Path) -> None:
    with CommitLog(root, mode="r") as log:
        log.scan(checks=CHECKS).finish()
        for rows in log.scan():
            assert len(rows)
        for block in log.blocks(0):
            assert block.view


def _read(store: Store) -> None:
    chance = random.Random(1)
    first, end = store.queue_range(TOPIC, 0)
    for _ in range(10_000):
        store.read(TOPIC, 0, chance.randrange(first, end))


def main() -> None:
    """
    Runs one step after the other.
    """
    folder, closed, size_bytes, segment = sys.argv[1:]
    found: dict[str, int] = {}
    gc.collect()
    with growth() as seen:

        def step(name: str, work: Callable[..., object], *arguments: object) -> None:
            work(*arguments)
            seen.measure()
            found[name] = seen.bytes

        log = CommitLog(folder, segment_size=int(segment))
        step("append", _append, log, int(size_bytes))
        step("append synced", _append_synced, log)
        log.close()
        step("scan", _scan, Path(closed))
        with Store(closed) as store:
            step("read", _read, store)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
