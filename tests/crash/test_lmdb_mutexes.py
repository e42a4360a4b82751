"""
LMDB starts its mutexes anew when a process opens a directory that no other one has
locked. No process may do that under a writer, whatever the writer's own program does
with the files, and however the other process ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="needs locks of an open file description"
)

ROUNDS = int(os.environ.get("LMDB_ROUNDS", "150"))

# Two threads change the metadata; the program copies its files, which gives up the
# locks that LMDB has.
METASTORE = """
import os, shutil, sys, threading
from pathlib import Path
from pystore import CommitLog, Message
root = Path(sys.argv[1])
log = CommitLog(root, segment_size=1 << 16)
stop = threading.Event()

def begin_epochs():
    while not stop.is_set():
        log.begin_epoch(log.writer.metastore.read(PROMISED) + 1)

def keep():
    while not stop.is_set():
        log.append(Message("T", b"x"))
        log.keep()

from pystore.metastore.schema import PROMISED
threads = [threading.Thread(target=one, daemon=True) for one in (begin_epochs, keep)]
for thread in threads:
    thread.start()
copy = root.with_name("copy")
print("ready", flush=True)
while not root.with_name("stop").exists():
    shutil.copytree(root / "meta" / "lmdb", copy)
    shutil.rmtree(copy)
stop.set()
for thread in threads:
    thread.join()
print(log.writer.metastore.read(PROMISED))
log.close()
"""

# Two stores in processes of their own, on one directory.
RECORDS = """
import shutil, sys
from pathlib import Path
from pystore.records.lmdb_store import LmdbStore
from pystore.records.ops import Put
root = Path(sys.argv[1])
store = LmdbStore(root)
name = sys.argv[2]
copy = root.with_name("copy of " + name)
store.commit([Put(name, b"0")])
print("ready", flush=True)
done = 0
while not root.with_name("stop").exists():
    shutil.copytree(root, copy)
    shutil.rmtree(copy)
    for _ in range(10):
        done += 1
        store.commit([Put(name, b"%d" % done)])
assert b"%d" % done == store.get(name).value
print(done)
store.close()
"""


def _open_and_die(path: Path, number: int) -> None:
    """
    A process that opens the directory with LMDB alone, as another program would, and is
    killed while it reads, while it may write, or after it closed it.
    """
    child = os.fork()
    if child == 0:
        try:
            import lmdb  # noqa: PLC0415 - not before the fork

            environment = lmdb.Environment(os.fsencode(path), lib_version=0)
            with environment.begin(write=number % 3 == 1):
                if number % 3:
                    os.kill(os.getpid(), signal.SIGKILL)
            environment.close()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    assert -signal.SIGKILL == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _started(script: str, *arguments: object) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "ready\n" == process.stdout.readline()
    return process


def _ended(process: subprocess.Popen[str]) -> int:
    try:
        text, _ = process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        # A mutex was started anew while a thread waited for it, or held it.
        process.kill()
        process.communicate()
        pytest.fail(f"process {process.pid} hangs")
    assert 0 == process.returncode
    return int(text)


def _disturb(path: Path) -> None:
    for number in range(ROUNDS):
        _open_and_die(path, number)
        time.sleep(0.005)
    (path.parent if path.name != "lmdb" else path.parents[2]).joinpath("stop").touch()


def test_no_other_process_starts_the_mutexes_of_the_metastore_anew(
    tmp_path: Path,
) -> None:
    """
    The writer copies its own metadata without a pause, and others open it and die.
    """
    root = tmp_path / "store"
    writer = _started(METASTORE, root)
    _disturb(root / "meta" / "lmdb")

    assert _ended(writer) > 0


def test_no_other_process_starts_the_mutexes_of_the_records_anew(
    tmp_path: Path,
) -> None:
    """
    Two processes commit to one record store, and both copy it without a pause.
    """
    root = tmp_path / "records"
    processes = [_started(RECORDS, root, name) for name in "ab"]
    _disturb(root)

    assert 0 < min(_ended(process) for process in processes)
