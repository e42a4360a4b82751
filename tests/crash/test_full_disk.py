"""
A13: a disk that is full, for real: nothing half there, and space mends it.

Each child has a small file system of its own: tmpfs, whose space is taken by what
is written, and ext4, which knows ranges that are allocated but never written.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("unshare"),
    reason="mounting a small file system needs root and unshare",
)

_TMPFS = "mount -t tmpfs -o size={mib}m tmpfs {path}"
_EXT4 = (
    "truncate -s {image_mib}m {path}.image && "
    "mkfs.ext4 -q -O ^has_journal {path}.image && mount -o loop {path}.image {path}"
)

PRELUDE = """
import os, sys
from pathlib import Path
from pystore.errors import FullError
from pystore.store.commit_log import CommitLog
from pystore.message.message import Message
from pystore.store.store import Store
from pystore.verify import verify_store

disk, root = Path(sys.argv[1]), Path(sys.argv[1], "store")
OPTIONS = dict(segment_size=1 << 18, flush_interval_ms=0)

def fill():
    # In pieces of any size, until not a byte is free.
    with open(disk / "filler", "ab", buffering=0) as file:
        for size in (1 << 16, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass

def make_space():
    (disk / "filler").unlink()

def append_until_full(log, limit=10**6):
    done = []
    try:
        while len(done) < limit:
            body = b"%d:" % len(done) + bytes(700)
            done.append(log.append(Message("T", body)).offset)
    except FullError as error:
        print(error)
    return done

def bodies(log):
    return [int(log.read(int(r["offset"])).body.split(b":")[0])
            for rows in log.scan() for r in rows]
"""


def on_a_small_disk(script: str, path: Path, kind: str, mib: int = 8) -> list[str]:
    """The output of a script on a file system of its own."""
    path = path / "disk"
    path.mkdir()
    mount = (_TMPFS if kind == "tmpfs" else _EXT4).format(
        path=path, mib=mib, image_mib=2 * mib
    )
    done = subprocess.run(
        [
            *("unshare", "-m", "sh", "-c"),
            f'{mount} && exec {sys.executable} -c "$0" {path}',
            PRELUDE + script,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "" == done.stderr
    assert 0 == done.returncode
    return done.stdout.splitlines()


@pytest.fixture(params=["tmpfs", "ext4"])
def kind(request: pytest.FixtureRequest) -> str:
    """Of file system."""
    if request.param == "ext4" and not shutil.which("mkfs.ext4"):
        pytest.skip("needs mkfs.ext4")
    name: str = request.param
    return name


ROLLING = """
log = CommitLog(root, **OPTIONS)
log.append(Message("T", b"0:"))
fill()
reported = 1 + len(append_until_full(log))
end = log.end_offset
assert reported - 1 == len(append_until_full(log, 1)) + reported - 1
assert end == log.end_offset
log.sync()
log.keep()
make_space()
log.append(Message("T", b"%d:" % reported), "leader-synced")
assert reported + 1 == len(bodies(log))
log.close()
with CommitLog(root) as log:
    assert log.recovery.is_clean
    assert reported + 1 == len(bodies(log))
assert "whole" == verify_store(root).verdict
"""


def test_a_roll_on_a_full_disk_is_refused_until_there_is_space(
    tmp_path: Path, kind: str
) -> None:
    """An error with path and numbers; existing records stay; then appends continue."""
    lines = on_a_small_disk(ROLLING, tmp_path, kind)

    assert 2 == len(lines)
    for line in lines:
        assert f"{tmp_path}/disk/store/commitlog" in line
        # Without fallocate a segment has holes, and what fills them is refused.
        assert "No space left on device" in line


APPENDING = """
log = CommitLog(root, **OPTIONS)
append_until_full(log, 100)
log.sync()
log.cut(log.read(0).end)
# What a cut gave back was given away: the range must be had again.
fill()
reported = append_until_full(log)
before = bodies(log)
make_space()
offset = log.append(Message("T", b"7:"), "leader-synced").offset
assert before + [7] == bodies(log)
log.close()
assert "whole" == verify_store(root).verdict
"""


def test_an_append_without_space_leaves_nothing_and_works_later(
    tmp_path: Path, kind: str
) -> None:
    """After a cut, where a hole was punched or a range zeroed."""
    (refused,) = on_a_small_disk(APPENDING, tmp_path, kind)

    assert f"{tmp_path}/disk/store/commitlog" in refused
    assert "bytes" in refused


OPENING = """
store = Store(root, queue_file_bytes=2000, **OPTIONS)
append_until_full(store.log, 900)
store.keep()
reported = bodies(store.log)
fill()
store.close()
print("closed")
for _ in range(3):
    with CommitLog(root, **OPTIONS) as log:
        assert reported == bodies(log)
print("opened")
with CommitLog(root, **OPTIONS) as log:
    assert 2 == log.delete_before(2 << 18)
    log.begin_epoch(5)
    log.cut(log.end_offset)
print("retained")
make_space()
with Store(root, queue_file_bytes=2000, **OPTIONS) as store:
    store.log.append(Message("T", b"7:"), "leader-synced")
    assert [(5, 0)] != store.log.epochs.pairs()
    assert 7 == bodies(store.log)[-1]
assert "whole" == verify_store(root).verdict
print("whole")
"""


def test_opening_retention_and_closing_work_on_a_full_disk(
    tmp_path: Path, kind: str
) -> None:
    """Room for the metadata is reserved; exports wait for space."""
    lines = on_a_small_disk(OPENING, tmp_path, kind)

    assert ["closed", "opened", "retained", "whole"] == lines


KILLED = """
import signal
pid = os.fork()
if pid == 0:
    log = CommitLog(root, **OPTIONS)
    append_until_full(log, 300)
    fill()
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(pid, 0)
with CommitLog(root, **OPTIONS) as log:
    assert list(range(300)) == bodies(log)
    make_space()
    log.append(Message("T", b"300:"))
with CommitLog(root) as log:
    assert list(range(301)) == bodies(log)
assert "whole" == verify_store(root).verdict
print("whole")
"""


def test_a_killed_writers_store_opens_on_a_full_disk(tmp_path: Path, kind: str) -> None:
    """Recovery zeroes and rewrites in the space that the log has."""
    assert ["whole"] == on_a_small_disk(KILLED, tmp_path, kind)


MANY_QUEUES = """
OPTIONS["segment_size"] = 1 << 23
QUEUES = int(sys.argv[2])
log = CommitLog(root, **OPTIONS)

def append_to_each(log):
    for at in range(0, QUEUES, 1000):
        count = min(1000, QUEUES - at)
        log.append_batch(Message(f"a topic of forty characters {at:012d}", b"",
                                 queue_id=number) for number in range(count))

append_to_each(log)
log.keep()
append_to_each(log)
fill()
log.keep()  # of all queues
print("kept")
while log.delete_before(log.min_offset + (1 << 23)):
    fill()  # what retention gave back is taken at once
log.append(Message("T", b""))
log.keep()
print("retained")
log.close()
for _ in range(3):
    with CommitLog(root, **OPTIONS) as log:
        assert log.recovery.is_clean
        queues, _ = log.writer.log.queues_fill()
        assert QUEUES + 1 == len(queues)
        assert 2 * QUEUES <= sum(queues.values()) <= 2 * QUEUES + 3
        log.append(Message("T", b""))
        log.keep()
with CommitLog(root, **OPTIONS) as log:
    log.cut(log.ends.last_offset)
    log.begin_epoch(3)
print("opened")
"""


@pytest.mark.parametrize("queues", [10, 100_000])
def test_a_full_disk_with_any_number_of_queues_is_retained_and_closed(
    tmp_path: Path, kind: str, queues: int
) -> None:
    """The reserve is enough for one change of the rows of all queues."""
    script = MANY_QUEUES.replace("int(sys.argv[2])", str(queues))
    lines = on_a_small_disk(script, tmp_path, kind, 128)

    assert ["kept", "retained", "opened"] == lines


NEVER_KEPT = """
OPTIONS["segment_size"] = 1 << 20
QUEUES = 60_000
log = CommitLog(root, **OPTIONS)
for at in range(0, QUEUES, 1000):
    log.append_batch(Message(f"a topic of forty characters {at:012d}", b"",
                             queue_id=number) for number in range(1000))
fill()
try:
    log.keep()
except FullError as error:
    print(error)
while log.delete_before(log.min_offset + (1 << 20)):
    pass
log.keep()
log.close()
with CommitLog(root, **OPTIONS) as log:
    assert log.recovery.is_clean
    assert 1 == log.ends.segments
    queues, _ = log.writer.log.queues_fill()
    assert QUEUES == len(queues)
    assert {1} == set(queues.values())
print("retained")
"""


def test_retention_makes_space_for_queues_that_were_never_stored(
    tmp_path: Path, kind: str
) -> None:
    """Only the queues that lose their last record need the reserve."""
    refused, retained = on_a_small_disk(NEVER_KEPT, tmp_path, kind, 64)

    assert "No space left on device" in refused or "bytes free" in refused
    assert "retained" == retained


LOSS = """
import os, signal
from pystore.errors import CorruptError
if os.fork() == 0:
    log = CommitLog(root, **OPTIONS)
    for number in range(900):
        log.append(Message("T", b"%d:" % number + bytes(700)))
    log.keep()
    os.kill(os.getpid(), signal.SIGKILL)
os.wait()
with CommitLog(root, mode="r") as log:
    bad = log.read(int(next(log.scan())["offset"][800]))  # in the newest segment
segment = sorted((root / "commitlog").iterdir())[-1]
with open(segment, "r+b") as file:
    file.seek(bad.offset - int(segment.name) + bad.body_at)
    file.write(b"?")
before = segment.read_bytes()
fill()
for options in (dict(), dict(accept_loss=True)):
    try:
        CommitLog(root, **options)
    except (CorruptError, FullError) as error:
        print(type(error).__name__, "save-to" in str(error))
assert before == segment.read_bytes()
assert not list(disk.glob("store.lost-*"))
place = disk.parent / "saved"
with CommitLog(root, accept_loss=True, save_to=place) as log:
    loss = log.recovery.loss
    assert place == loss.directory.parent
    assert 99 == len(loss.records), len(loss.records)
    assert list(range(800)) == bodies(log)
"""


def test_a_loss_is_accepted_on_a_full_disk_if_it_is_saved_elsewhere(
    tmp_path: Path, kind: str
) -> None:
    """Beside the store there is no space, which is an error that changes nothing."""
    assert ["CorruptError False", "FullError True"] == on_a_small_disk(
        LOSS, tmp_path, kind
    )
