"""
A batch is there whole or not at all, and what an append refused never comes back.

Real processes, killed or failed by strace at each write of a batch that takes many.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from crash.boots import another_boot
from crash.proof import SEED
from crash.recording import search_path

from pystore.message.message import Message
from pystore.store.commit_log import CommitLog
from pystore.verify import verify_store

pytestmark = pytest.mark.skipif(
    not shutil.which("strace"), reason="killing at a write needs strace"
)

WRITES = int(os.environ.get("CRASH_WRITES", "4"))
"""At how many of the writes of a batch a process is killed, or fails."""

RECORDS = 40
SEGMENT = 1 << 24
BODY_BYTES = 60000
PIECES = RECORDS * BODY_BYTES // (128 << 10) + 1

PRELUDE = f"""
import sys
from pystore import CommitLog, Message
from pystore.errors import PystoreError

log = CommitLog(sys.argv[1], segment_size={SEGMENT}, flush_interval_ms=0)
log.append(Message("t", b"first"), ack="leader-synced")
batch = [Message("t", bytes([65 + i]) * {BODY_BYTES}) for i in range({RECORDS})]
"""


def run(root: Path, script: str, *faults: str) -> subprocess.CompletedProcess[str]:
    """
    A child that strace kills or fails at calls on the first segment.
    """
    segment = root / "commitlog" / f"{0:020}"
    # strace knows a descriptor by the name that its file had when it was opened,
    # and the portable build gives a new segment its name by a link.
    created = root / "meta" / "tmp" / segment.name
    root.mkdir(parents=True, exist_ok=True)
    calls = sorted({fault.split(":")[0] for fault in faults})
    before = (
        *("strace", "-f", "-qq", "-o", os.devnull, "-P", str(segment)),
        *("-P", str(created), "-P", f"{created} (deleted)"),
        *("-e", f"trace={','.join(calls)}"),
        *(word for fault in faults for word in ("-e", f"inject={fault}")),
    )
    return subprocess.run(
        [*before, sys.executable, "-c", PRELUDE + script, str(root)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(search_path())},
        capture_output=True,
        text=True,
        check=False,
    )


def bodies_in(log: CommitLog) -> list[bytes]:
    """
    The first byte of each record, in order.
    """
    return [
        log.read(int(offset)).body[:1]
        for rows in log.scan()
        for offset in rows["offset"]
    ]


def writes_tried() -> list[int]:
    """
    Numbers of writes to the segment, at random but for the first ones of the batch.
    """
    print(f"seed {SEED}")
    rest = range(4, PIECES)  # the first write is of the record before the batch
    return [2, 3, *random.Random(SEED).sample(rest, min(WRITES, len(rest)))]


APPEND = """
log.append_batch(batch, ack="leader-synced")
print("acknowledged", flush=True)
"""


def test_a_batch_of_a_killed_process_is_there_whole_or_not_at_all(
    tmp_path: Path,
) -> None:
    """
    Killed at any write of a batch, the store opens with the first record alone, and the
    bytes of the batch are zero; a reader and `verify` find no damage.
    """
    killed = 0
    for number in writes_tried():
        root = tmp_path / str(number)
        done = run(root, APPEND, f"pwrite64:signal=SIGKILL:when={number}")
        killed += done.returncode != 0
        expected = RECORDS + 1 if "acknowledged" in done.stdout else 1

        assert [] == verify_store(root).damages, number
        with CommitLog(root, mode="r") as log:
            assert expected == len(bodies_in(log)), number
        with CommitLog(root) as log:
            assert expected == len(bodies_in(log)), number
            end = log.append(Message("t", b"next")).end
        segment = root / "commitlog" / f"{0:020}"
        assert not any(segment.read_bytes()[end:])
    assert killed == len(writes_tried())


def test_the_records_before_a_batch_stay_when_the_process_is_killed(
    tmp_path: Path,
) -> None:
    """
    Acknowledged, unsynced records below a batch whose writer was killed are all there.
    """
    script = (
        """
for i in range(9):
    log.append(Message("t", b"%d" % i))
    print(i, flush=True)
"""
        + APPEND
    )
    done = run(tmp_path, script, "pwrite64:signal=SIGKILL:when=14")
    with CommitLog(tmp_path) as log:
        found = bodies_in(log)
        assert "A19" == log.recovery.rule
    assert [str(i) for i in range(9)] == done.stdout.split()
    assert [b"f", *(b"%d" % i for i in range(9))] == found


REFUSED = """
try:
    log.append_batch(batch, ack="leader-synced")
    print("acknowledged")
except PystoreError as error:
    print("refused", type(error).__name__)
try:
    log.append(Message("t", b"next"))
    print("next")
except PystoreError as error:
    print("refused", type(error).__name__)
print(len([row for rows in log.scan() for row in rows]))
try:
    log.close()
    print("closed")
except PystoreError as error:
    print("failed", error)
"""


@pytest.mark.parametrize("has_power", [True, False], ids=["same boot", "power cut"])
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("zeroing", ["fails", "works"])
def test_what_an_append_refused_never_comes_back(
    tmp_path: Path, error: str, zeroing: str, has_power: bool
) -> None:
    """
    A write in the middle of a batch fails, and perhaps the zeroing behind it: after the
    refusal nothing of the batch is in this process, nor after opening again, also in
    another boot.
    """
    for number in writes_tried():
        root = tmp_path / str(number)
        faults = [f"pwrite64:error={error}:when={number}+"]
        if zeroing == "fails":
            faults.append("fallocate:error=EIO:when=2+")  # the first makes the segment
        else:
            faults = [f"pwrite64:error={error}:when={number}"]
        done = run(root, REFUSED, *faults)
        assert "" == done.stderr
        batch, after, count, end = done.stdout.splitlines()
        assert batch.startswith("refused"), number
        expected = [b"f"] + [b"n"] * (after == "next")
        assert len(expected) == int(count), number
        if zeroing == "works":
            assert "closed" == end
        else:
            # Of the batch of write 2 nothing was written: zeroing by writes has
            # nothing to do then.
            assert end.startswith("failed") or number == 2, end

        boot = nullcontext() if has_power else another_boot()
        with boot, CommitLog(root) as log:
            assert expected == bodies_in(log), number
            log.append(Message("t", b"last"))
        with CommitLog(root) as log:
            assert [*expected, b"l"] == bodies_in(log), number
        assert "whole" == verify_store(root).verdict
