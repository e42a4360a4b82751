"""
Real writers with several threads, killed by SIGKILL in the middle, again and again.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np

from pystore import Check, CommitLog, Store
from pystore.verify import verify_store

THREADS = 4
KILLS = int(os.environ.get("CRASH_KILLS", "6"))
SEED = int(os.environ.get("PS_SEED", "1"))
PROVEN = Check.BODY | Check.PROPERTY | Check.OFFSET | Check.TOPIC

# Prints one line for each ack: thread, number, offset.
WRITER = """
import os, sys, threading, zlib
from pystore import Message, open_store
from pystore.message.columns import gather_columns

root, first = sys.argv[1], int(sys.argv[2])

def body(thread, number):
    return zlib.compress(f"{thread} {number} ".encode() * (number % 50 + 1), 0)

def write(store, thread):
    number = first
    while True:
        count = 1 + number % 3 * 4
        topic = f"topic{thread}"
        bodies = [body(thread, n) for n in range(number, number + count)]
        if number % 5 == 4:
            columns = gather_columns(topic, bodies, keys=[b"%d" % thread] * count)
            done = store.log.append_columns(columns)
        else:
            batch = [Message(topic, b, keys=str(thread)) for b in bodies]
            ack = "leader-synced" if number % 17 == 0 else "leader"
            done = store.log.append_batch(batch, ack)
        os.write(1, b"%d %d %d %d\\n" % (thread, number, count, done.offset))
        number += count

store = open_store(root, segment_size=1 << 18, queue_file_bytes=2000)
for thread in range(%d):
    threading.Thread(target=write, args=(store, thread), daemon=True).start()
threading.Event().wait()
""".replace("%d)", f"{THREADS})")


def run_and_kill(root: Path, first: int, lines: int) -> list[tuple[int, ...]]:
    """
    The lines of a writer that was killed after *lines* of them.
    """
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, root, str(first)], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    with child, child.stdout as pipe:
        reported = [pipe.readline() for _ in range(lines)]
        child.kill()
        reported += pipe.readlines()
    assert -9 == child.returncode
    return [tuple(map(int, line.split())) for line in reported]


def body(thread: int, number: int) -> bytes:
    """
    As the writer makes it.
    """
    return zlib.compress(f"{thread} {number} ".encode() * (number % 50 + 1), 0)


def test_acknowledged_records_of_threads_survive_every_kill(tmp_path: Path) -> None:
    """
    Each acknowledged record is at its reported offset, no record in the log is half
    there, and the queues have each record once.
    """
    root, draw = tmp_path / "store", random.Random(SEED)
    reported: list[tuple[int, ...]] = []
    for kill in range(KILLS):
        lines = draw.randrange(1, 400)
        reported += run_and_kill(root, kill * 1_000_000, lines)
        with CommitLog(root) as log:
            for thread, number, _, offset in reported:
                record = log.read(offset)
                where = f"PS_SEED={SEED}, kill {kill}, offset {offset}"
                assert f"topic{thread}" == record.topic, where
                assert body(thread, number) == record.body, where
    assert verify_store(root).damages == []
    check_queues(
        root, {(t, n + i) for t, n, count, _ in reported for i in range(count)}
    )


def check_queues(root: Path, reported: set[tuple[int, int]]) -> None:
    """
    Every record of the log has its queue entry, and they are the acknowledged ones, but
    for what was written when SIGKILL came.
    """
    found = set()
    with Store(root) as store:
        scan = store.log.scan(checks=PROVEN)
        rows = np.concatenate(list(scan))
        topics = {one.topic for one in store.queues}
        for thread in range(THREADS):
            if f"topic{thread}" not in topics:
                # Each writer was killed before this thread appended.
                continue
            records = store.read_from(f"topic{thread}", 0, 0, len(rows))
            assert list(range(len(records))) == [r.queue_offset for r in records]
            for record in records:
                found.add((thread, int(zlib.decompress(record.body).split()[1])))
    assert len(rows) == scan.cursor.records == len(found)
    assert reported <= found
    assert len(found - reported) <= KILLS * THREADS * 9
