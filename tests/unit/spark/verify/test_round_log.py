"""
What a round leaves that does not come to its end.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from lib.spark.verify_job import SEGMENT, make_replicas, run_here
from lib.store.segment_files import flip, segment

from pystore.core.lock import Lock
from pystore.errors import FullError, InvalidError, LockedError
from pystore.spark.verify import run as run_module
from pystore.spark.verify.output import write_output
from pystore.spark.verify.round_log import SEEN, RoundLog, lock_rounds, read_seen
from pystore.spark.verify.rounds import next_round
from pystore.spark.verify.run import verify_stores

needs_mount = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("unshare"),
    reason="mounting a small file system needs root and unshare",
)

KILLED = """
import os, signal, sys
from pathlib import Path
from lib.spark.verify_job import run_here
from pystore.spark.verify import run as run_module
from pystore.spark.verify.round_log import RoundLog, lock_rounds

root, into = sys.argv[1], Path(sys.argv[2])
run_module._WAVE_BYTES = 0
waves = []

def run(tasks, function, size):
    waves.append(len(tasks))
    if len(waves) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return run_here(tasks, function, size)

with lock_rounds(into):
    log = RoundLog(into, 0)
    run_module.verify_stores(run, [root], note=lambda checks, left: log.note(checks))
"""


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """
    A store of several segments; two of them are damaged.
    """
    (root,) = make_replicas(tmp_path, 1)
    flip(segment(root, SEGMENT), 30_000)
    flip(segment(root, 3 * SEGMENT), 30_000)
    return root


def _run_child(*arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(filter(None, sys.path))
    return subprocess.run(
        [sys.executable, "-c", *arguments],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_killed_driver_leaves_what_was_found(damaged: Path, tmp_path: Path) -> None:
    """
    The damage of the second segment was seen, that of the fourth was not yet.
    """
    into = tmp_path / "audit"

    done = _run_child(KILLED, str(damaged), str(into))

    assert -signal.SIGKILL == done.returncode, done.stderr
    lines = (into / "audit" / SEEN).read_text().splitlines()
    assert [0, SEGMENT] == [json.loads(line)["segment"] for line in lines]
    seen = read_seen(into)
    assert [(str(damaged), SEGMENT)] == list(seen)
    assert "CRC" in seen[str(damaged), SEGMENT][0]
    assert 0 == next_round(into)


def test_a_published_round_removes_what_it_has_verdicts_on(
    damaged: Path, tmp_path: Path
) -> None:
    """
    What it did not read again stays for the next one.
    """
    into = tmp_path / "audit"
    _run_child(KILLED, str(damaged), str(into))
    other = json.dumps({"store": "/other", "segment": 0, "problems": ["bad"]})
    with (into / "audit" / SEEN).open("a") as file:
        file.write(f"{other}\n{other[:20]}")  # and a half line

    log = RoundLog(into, 0)
    found = verify_stores(
        run_here, [str(damaged)], note=lambda checks, _: log.note(checks)
    )
    write_output(into, found)
    log.publish()

    assert {("/other", 0): ["bad"]} == read_seen(into)
    assert 2 == sum(one.is_bad for one in found.verdicts)


def test_results_are_noted_while_tasks_are_left(
    damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    With the number of those.
    """
    monkeypatch.setattr(run_module, "_WAVE_BYTES", 0)
    noted: list[tuple[int, int]] = []
    found = verify_stores(
        run_here,
        [str(damaged)],
        note=lambda checks, left: noted.append((len(checks), left)),
    )

    count = len(found.verdicts)
    assert [(1, left) for left in range(count - 1, -1, -1)] == noted


def test_a_second_job_into_the_folder_is_refused_at_once(tmp_path: Path) -> None:
    """
    Before it reads anything. The folder is free again afterwards.
    """
    into = tmp_path / "audit"
    with (
        lock_rounds(into),
        pytest.raises(LockedError, match="another job writes its rounds here"),
        lock_rounds(into),
    ):
        pass
    with lock_rounds(into), pytest.raises(LockedError):
        Lock(into / "audit" / "_lock")


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    """
    With its path.
    """
    into = tmp_path / "audit"
    with lock_rounds(into):
        (into / "audit" / SEEN).write_text("{}\n")

        with pytest.raises(InvalidError, match=f"{SEEN}: not a file of this job"):
            read_seen(into)


@needs_mount
def test_a_full_disk_ends_no_round(damaged: Path, tmp_path: Path) -> None:
    """
    The verdicts are told, and then that they could not be written.
    """
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from lib.spark.verify_job import run_here\n"
        "from pystore.errors import FullError\n"
        "from pystore.spark.verify.output import write_output\n"
        "from pystore.spark.verify.round_log import RoundLog, lock_rounds\n"
        "from pystore.spark.verify.run import verify_stores\n"
        "into = Path(sys.argv[2])\n"
        "with lock_rounds(into):\n"
        "    try:\n"
        "        (into / 'filler').write_bytes(bytes(1 << 21))\n"
        "    except OSError:\n"
        "        pass\n"
        "    log = RoundLog(into, 0)\n"
        "    note = lambda checks, left: log.note(checks)\n"
        "    found = verify_stores(run_here, [sys.argv[1]], note=note)\n"
        "    print(sum(one.is_bad for one in found.verdicts))\n"
        "    print(type(log.problem).__name__)\n"
        "    try:\n"
        "        write_output(into, found)\n"
        "    except FullError as error:\n"
        "        print(error)\n"
    )
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=1m tmpfs {disk}"
    paths = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [
            *("unshare", "-m", "sh", "-c"),
            f'{mount} && exec {sys.executable} -c "$0" {damaged} {disk}/audit',
            script,
        ],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "" == done.stderr
    bad, problem, error = done.stdout.splitlines()
    assert ("2", FullError.__name__) == (bad, problem)
    assert "No space left on device" in error
