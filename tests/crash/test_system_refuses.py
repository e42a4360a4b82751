"""
The system says no, for real: failing writes and syncs, read-only places, files
that another process cuts short, processes that fork.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from crash.proof import SEED
from crash.recording import search_path

from pystore.errors import NotAStoreError
from pystore.message.message import Message
from pystore.store.commit_log import CommitLog
from pystore.verify import verify_store

NEEDS_ROOT = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("unshare"),
    reason="another user and read-only mounts need root and unshare",
)
NEEDS_STRACE = pytest.mark.skipif(
    not shutil.which("strace"), reason="injecting errors needs strace"
)

FAULTS = int(os.environ.get("CRASH_FAULTS", "5"))
"""Of how many calls of each kind one is failed."""

PRELUDE = """
import os, sys
from pathlib import Path
from pystore.errors import PystoreError
from pystore.store.commit_log import CommitLog
from pystore.message.message import Message

root = Path(sys.argv[1])
OPTIONS = dict(segment_size=1 << 14, flush_interval_ms=0)
"""


def bodies(log: CommitLog) -> list[bytes]:
    """Of every record."""
    return [log.read(int(row["offset"])).body for rows in log.scan() for row in rows]


def run_script(script: str, *arguments: str, before: tuple[str, ...] = ()) -> str:
    """The output of a child that must not fail."""
    done = subprocess.run(
        [*before, sys.executable, "-c", PRELUDE + script, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(search_path())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "" == done.stderr
    assert 0 == done.returncode
    return done.stdout


FAILING = """
try:
    with CommitLog(root, **OPTIONS) as log:
        for number in range(40):
            ack = "leader-synced" if number % 2 else "leader"
            try:
                log.append(Message("T", b"%d:" % number + bytes(900)), ack)
                print("reported", ack, number)
            except PystoreError as error:
                print("refused", type(error).__name__, number)
        log.begin_epoch(1)
        log.cut(log.read(0).end)
        print("cut")
except PystoreError as error:
    print("failed", type(error).__name__, error)
"""


@NEEDS_STRACE
@pytest.mark.parametrize("call", ["fdatasync", "fsync", "pwrite64", "fallocate"])
def test_one_failing_call_loses_nothing_acknowledged(tmp_path: Path, call: str) -> None:
    """EIO from the n-th call, everything else works: a reopened store has it all."""
    print(f"seed {SEED}")
    count = {"fdatasync": 30, "fsync": 20, "pwrite64": 80, "fallocate": 8}[call]
    # Every build makes a first call: the portable one calls fallocate only twice.
    later = random.Random(SEED).sample(range(2, count), min(FAULTS, count - 2))
    numbers_tried = [1, *later]
    failed = 0
    for number in numbers_tried:
        root = tmp_path / f"{number}"
        output = run_script(
            FAILING,
            str(root),
            before=(
                *("strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={call}"),
                *("-e", f"inject={call}:error=EIO:when={number}"),
            ),
        )
        reported = [line.split() for line in output.splitlines()]
        failed += any(words[0] in ("refused", "failed") for words in reported)
        numbers = [int(words[2]) for words in reported if words[0] == "reported"]
        with CommitLog(root, segment_size=1 << 14) as log:
            assert log.recovery.loss is None
            assert not log.recovery.foreign
            found = [int(body.split(b":")[0]) for body in bodies(log)]
        assert found == sorted(found)
        if ["cut"] in reported or found == numbers[:1]:
            numbers = numbers[:1]
        assert set(numbers) <= set(found), output
        assert "whole" == verify_store(root).verdict
    assert failed > 0


READ_ONLY = """
with CommitLog(root, mode="r") as log:
    print(sum(len(rows) for rows in log.scan()))
try:
    CommitLog(root)
except PystoreError as error:
    print(type(error).__name__, error)
"""


@NEEDS_ROOT
def test_a_read_only_store_is_read_and_not_written(tmp_path: Path) -> None:
    """A writer gets the path and the reason; nothing changes."""
    root = tmp_path / "s"
    with CommitLog(root, segment_size=1 << 14) as log:
        log.append_batch([Message("T", b"body")] * 9)
    mount = f"mount --bind {root} {root} && mount -o remount,ro,bind {root}"
    before = ("unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh")

    count, refused = run_script(READ_ONLY, str(root), before=before).splitlines()

    assert "9" == count
    assert refused.startswith("StorageError ")
    assert f"{root}/" in refused
    assert "Read-only file system" in refused


AS_NOBODY = """
os.setgid(65534)
os.setuid(65534)
"""


@NEEDS_ROOT
def test_a_store_of_another_user_is_read_and_not_written(tmp_path: Path) -> None:
    """Permissions, as far as the system gives them."""
    root = tmp_path / "s"
    with CommitLog(root, segment_size=1 << 14) as log:
        log.append_batch([Message("T", b"body")] * 9)
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == 0 and above.stat().st_mode & 0o005 != 0o005:
            above.chmod(above.stat().st_mode | 0o005)

    count, refused = run_script(AS_NOBODY + READ_ONLY, str(root)).splitlines()

    assert "9" == count
    assert refused.startswith("StorageError ")
    assert f"{root}/" in refused
    assert "Permission denied" in refused


SHORTENED = """
log = CommitLog(root, **OPTIONS)
for number in range(40):
    log.append(Message("T", b"%d:" % number + bytes(900)))
log.keep()
offsets = [int(row["offset"]) for rows in log.scan() for row in rows]
os.system(f"truncate -s 4096 {root}/commitlog/{0:020}")
good = bad = 0
for offset in offsets:
    try:
        log.read(offset)
        good += 1
    except PystoreError as error:
        kind, text = type(error).__name__, str(error)
        bad += 1
print(good, bad, kind, text)
scan = log.scan()
print(scan.finish().stop.name)
log.append(Message("T", b"41:"), "leader-synced")
print(log.read(log.ends.last_offset).body)
os._exit(0)
"""


def test_a_file_cut_short_under_its_mapping_is_an_error_and_no_signal(
    tmp_path: Path,
) -> None:
    """Records in the remaining bytes are read, the others are named as damage."""
    root = tmp_path / "s"

    damage, scan, body = run_script(SHORTENED, str(root)).splitlines()

    good, bad, kind, text = damage.split(" ", 3)
    assert int(good) > 0
    assert int(bad) > 0
    assert "CorruptError" == kind
    assert "another program cut it short" in text
    assert "UNREADABLE" == scan
    assert "b'41:'" == body
    with pytest.raises(
        NotAStoreError, match=rf"{0:020}: 4096 bytes, a segment here has 16384"
    ):
        CommitLog(root)


def test_a_forked_child_leaves_the_store_to_its_parent(tmp_path: Path) -> None:
    """Its handle raises, its exit changes nothing, the parent continues."""
    output = run_script(
        """
log = CommitLog(root, **OPTIONS)
log.append(Message("T", b"0:"))
pid = os.fork()
if pid == 0:
    for use in (
        lambda: log.append(Message("T", b"1:")),
        lambda: log.ends,
        lambda: log.read(0),
        lambda: log.keep(),
        lambda: log.cut(0),
        lambda: log.epochs,
    ):
        try:
            use()
        except PystoreError as error:
            print(type(error).__name__)
    log.close()
    sys.exit(0)
print(os.waitpid(pid, 0)[1])
log.append(Message("T", b"2:"), "leader-synced")
log.close()
with CommitLog(root) as log:
    print(log.recovery.is_clean, [log.read(int(r["offset"])).body
                                  for rows in log.scan() for r in rows])
""",
        str(tmp_path / "s"),
    )

    lines = output.splitlines()
    assert ["ForkedError"] * 6 == lines[:6]
    assert ["0", "True [b'0:', b'2:']"] == lines[6:]


LIMITED = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = CommitLog(root, **OPTIONS)
for number in range(5):
    log.append(Message("T", b"%d:" % number + bytes(900)))
resource.setrlimit(resource.RLIMIT_FSIZE, (9000, -1))
reported = 5
try:
    while True:
        log.append(Message("T", b"%d:" % reported + bytes(900)))
        reported += 1
except PystoreError as error:
    print(reported, type(error).__name__)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_write_that_the_system_shortens_leaves_nothing_by_halves(
    tmp_path: Path,
) -> None:
    """A file size limit lets the first part of a write through."""
    root = tmp_path / "s"
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + LIMITED, str(root)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(search_path())},
        capture_output=True,
        text=True,
        check=False,
    )

    assert -signal.SIGKILL == done.returncode
    reported, kind = done.stdout.split()
    assert "StorageError" == kind
    with CommitLog(root) as log:
        found = [int(body.split(b":")[0]) for body in bodies(log)]
    assert list(range(int(reported))) == found
