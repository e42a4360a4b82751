"""
Two builds of pystore side by side in one run: does a change cost processor time?

    python bench/two_builds.py OLD NEW [--pairs 21] [--directory DIR] [--records N]
                               [--tasks NAME ...]

OLD and NEW are checkouts with the core built in place. Each task runs in a process of
its own, in turns A B B A, and each pair gives two ratios, NEW / OLD: of processor time
for each record, and of records in a second. The last column is the noise of the rate:
the median deviation, from 1, of the ratio of two neighbouring runs of one build.

Exit codes: 0 within the limits, 1 a median is beyond them, 2 usage.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

CPU_RATIO_MAX = 1.03
BATCH = 64
BODY = bytes(range(256)) * 4
BOOT_ID_AT = 24
"""In ``meta/live``, of both builds."""


def _messages(count: int) -> list[Any]:
    from pystore import Message  # noqa: PLC0415  of the build that is measured

    return [Message(f"topic-{i % 7}", BODY, queue_id=i % 4) for i in range(count)]


def _open(folder: Path) -> Any:
    from pystore import CommitLog  # noqa: PLC0415  of the build that is measured

    return CommitLog(folder, segment_size=256 << 20)


def append_one(folder: Path, count: int) -> Callable[[], None]:
    """
    Records one by one, with the ack ``leader``.
    """
    log, (message,) = _open(folder), _messages(1)

    def run() -> None:
        for _ in range(count):
            log.append(message)

    return run


def append_batches(folder: Path, count: int) -> Callable[[], None]:
    """
    Batches of messages.
    """
    log, batch = _open(folder), _messages(BATCH)

    def run() -> None:
        for _ in range(count // BATCH):
            log.append_batch(batch)

    return run


def _filled(folder: Path, count: int) -> Any:
    log, batch = _open(folder), _messages(BATCH)
    for _ in range(count // BATCH):
        log.append_batch(batch)
    return log


def scan(folder: Path, count: int) -> Callable[[], None]:
    """
    All rows of a warm log.
    """
    log = _filled(folder, count)

    def run() -> None:
        assert count // BATCH * BATCH == sum(len(rows) for rows in log.scan())

    return run


def read(folder: Path, count: int) -> Callable[[], None]:
    """
    Records one by one, by offset; without the CRC of the body, which builds of before
    do not compare.
    """
    log = _filled(folder, count)
    offsets = [int(at) for rows in log.scan() for at in rows["offset"]]
    has_crc = "body_crc" in signature(log.read).parameters
    ask = partial(log.read, body_crc=False) if has_crc else log.read

    def run() -> None:
        for offset in offsets:
            ask(offset)

    return run


def append_columns(folder: Path, count: int) -> Callable[[], None]:
    """
    Columns of numpy arrays.
    """
    import numpy as np  # noqa: PLC0415  as pystore

    from pystore import gather_columns  # noqa: PLC0415  of the build that is measured

    size = 1024
    offsets = np.arange(size + 1, dtype=np.int64) * len(BODY)
    log, columns = _open(folder), gather_columns("topic", (offsets, BODY * size))

    def run() -> None:
        for _ in range(count // size):
            log.append_columns(columns)

    return run


def _killed(folder: Path, count: int) -> None:
    """
    Leaves a store whose writer ended without closing it.
    """
    if (child := os.fork()) == 0:
        log = _filled(folder, count)
        log.sync()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def recovery(folder: Path, count: int) -> Callable[[], None]:
    """
    The opening of a killed store in another boot: each record is checked. A small store
    is opened before, so that imports are no part of it.
    """
    small = folder.with_name("small")
    for root, records in ((small, BATCH), (folder, count)):
        _killed(root, records)
        with (root / "meta" / "live").open("r+b") as live:
            live.seek(BOOT_ID_AT)
            live.write(os.urandom(16))
    _open(small).close()
    opened = []  # kept: closing is not what is measured

    def run() -> None:
        opened.append(_open(folder))
        assert count // BATCH * BATCH == opened[0].recovery.records

    return run


def verify(folder: Path, count: int) -> Callable[[], None]:
    """
    All records and queues of a closed store, by one thread.
    """
    from pystore import open_store  # noqa: PLC0415  of the build that is measured
    from pystore.verify import verify_store  # noqa: PLC0415  of the same

    with open_store(folder, segment_size=256 << 20) as store:
        batch = _messages(BATCH)
        for _ in range(count // BATCH):
            store.log.append_batch(batch)

    def run() -> None:
        assert count // BATCH * BATCH == verify_store(folder, 1).records

    return run


TASKS = {
    "append-one": (append_one, 1),
    "append-batches": (append_batches, 4),
    "append-columns": (append_columns, 8),
    "scan": (scan, 8),
    "read": (read, 1),
    "recovery": (recovery, 8),
    "verify": (verify, 8),
}
"""The task, and how many times as many records it takes."""


def _child(task: str, count: int, folder: Path) -> None:
    make, factor = TASKS[task]
    run = make(folder / "store", count * factor)
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    run()
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps([cpu / (count * factor), count * factor / wall]), flush=True)
    os._exit(0)  # closing is not what is measured


def _measure(
    build: Path, task: str, count: int, directory: Path
) -> tuple[float, float]:
    folder = Path(tempfile.mkdtemp(dir=directory))
    words = [sys.executable, __file__, "--child", task, str(count), str(folder)]
    try:
        answer = subprocess.check_output(
            words, env=os.environ | {"PYTHONPATH": str(build)}, text=True
        )
    finally:
        shutil.rmtree(folder)
    cpu, rate = json.loads(answer)
    return cpu, rate


def _compare(old: Path, new: Path, task: str, given: argparse.Namespace) -> bool:
    cpu, rate, same = [], [], []
    last: dict[Path, float] = {}
    for pair in range(given.pairs):
        order = (old, new) if pair % 2 == 0 else (new, old)
        found = {
            build: _measure(build, task, given.records, given.directory)
            for build in order
        }
        cpu.append(found[new][0] / found[old][0])
        rate.append(found[new][1] / found[old][1])
        for build in (old, new):
            if build in last:
                same.append(abs(found[build][1] / last[build] - 1))
            last[build] = found[build][1]
    noise = statistics.median(same)
    cpu_median, rate_median = statistics.median(cpu), statistics.median(rate)
    is_good = cpu_median <= CPU_RATIO_MAX and rate_median >= 1 - noise
    print(
        f"{task:<15} cpu {cpu_median:.3f} ({min(cpu):.3f} to {max(cpu):.3f})"
        f"   rate {rate_median:.3f} ({min(rate):.3f} to {max(rate):.3f})"
        f"   noise {noise:.3f}   {'ok' if is_good else 'BEYOND'}",
        flush=True,
    )
    return is_good


def main() -> int:
    """
    Compares two builds, or runs one task for that.
    """
    if sys.argv[1:2] == ["--child"]:
        _child(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    given = parser.parse_args()
    good = [
        _compare(given.old.resolve(), given.new.resolve(), task, given)
        for task in given.tasks
    ]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
