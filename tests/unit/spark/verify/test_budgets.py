"""
What planning and a task of the verify job cost, counted: bytes that are read, calls of
the file system, bytes that travel to the driver.
"""

from __future__ import annotations

import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lib.spark.verify_job import SEGMENT, check, make_replicas
from lib.store.segment_files import segment

from pystore.message.message import Message
from pystore.spark.verify.plan import plan_store, plan_tasks
from pystore.spark.verify.verdicts import Verdict
from pystore.store.store import Store

QUEUES = 128
MANY_QUEUES = 4000
PLAN_BYTES = 64 << 20
"""To plan a store of 4,000 queues; each has files of 6 MB."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A closed store with many queues, each with two entries.
    """
    root = tmp_path_factory.mktemp("budgets") / "a"
    with Store(root, segment_size=SEGMENT) as store:
        for number in range(2 * QUEUES):
            topic, queue_id = divmod(number % QUEUES, 8)
            store.log.append(Message(f"T{topic}", b"body", queue_id=queue_id))
    return root


def bytes_read() -> int:
    """
    The bytes that this process has read by system calls.
    """
    found = re.search(r"rchar: (\d+)", Path("/proc/self/io").read_text())
    assert found
    return int(found[1])


@pytest.mark.parametrize("kind", ["closed", "killed", "of another program"])
def test_planning_reads_little_of_each_queue(
    store: Path, tmp_path: Path, kind: str
) -> None:
    """
    Its end is found by bisection, whichever program wrote the store, and once.
    """
    root = shutil.copytree(store, tmp_path / "a", symlinks=True)
    if kind == "killed":
        (root / "abort").write_bytes(b"")
    elif kind == "of another program":
        shutil.rmtree(root / "meta")
    before = bytes_read()
    plan = plan_store(root)
    used = bytes_read() - before

    assert {2} == set(plan.lengths.values())
    assert QUEUES == len(plan.lengths)
    assert used / QUEUES <= PLAN_BYTES / MANY_QUEUES


def test_a_full_queue_is_planned_at_the_same_cost(tmp_path: Path) -> None:
    """
    Its last files are not read as a whole.
    """
    root = make_replicas(tmp_path, 1, 300, with_queues=True)[0]
    shutil.rmtree(root / "meta")
    path = next((root / "consumequeue" / "T1" / "0").iterdir())
    data = path.read_bytes()
    path.write_bytes(data[:1000] * (len(data) // 1000))
    before = bytes_read()
    plan = plan_store(root)
    used = bytes_read() - before

    assert len(data) // 20 == plan.lengths["T1", 0]
    assert used < 1 << 20


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("queues", [1, 16])
def test_a_task_makes_few_file_system_calls_for_any_number_of_segments(
    tmp_path: Path, queues: int
) -> None:
    """
    Fifty, and those that read the entries of a queue: open, kind, read and close.
    """
    root = tmp_path / "a"
    with Store(root, segment_size=SEGMENT) as store:
        for number in range(4000):
            message = Message("T", bytes(1000), queue_id=number % queues)
            store.log.append(message)
    tasks = plan_tasks([plan_store(root)])
    assert len(tasks) > 60
    script = (
        "import pickle\n"
        "from pathlib import Path\n"
        "from pystore.spark.verify.task import check_segment\n"
        f"task = pickle.loads({pickle.dumps(tasks[40])!r})\n"
        "check_segment(task)\n"
        "Path('/begin-of-task').exists()\n"
        "found = check_segment(task)\n"
        "Path('/end-of-task').exists()\n"
        "assert found.report and found.report.records > 50, found\n"
        "assert not found.error\n"
    )
    trace = tmp_path / "trace"
    command = [sys.executable, "-c", script]
    subprocess.run(
        ["strace", "-f", "-e", "trace=%file,%desc", "-o", trace, *command],
        check=True,
    )

    lines = trace.read_text(errors="replace").splitlines()
    first = next(at for at, line in enumerate(lines) if "/begin-of-task" in line)
    last = next(at for at, line in enumerate(lines) if "/end-of-task" in line)
    calls = [line for line in lines[first + 1 : last] if "mmap(NULL" not in line]
    assert len(calls) <= 50 + 4 * queues, "\n".join(calls)


def test_a_task_carries_nothing_of_the_queues(store: Path) -> None:
    """
    Its size does not grow with their number.
    """
    (task,) = plan_tasks([plan_store(store)])

    assert len(pickle.dumps(task)) < 1000


@pytest.mark.parametrize("hole", [(0, 1), (40, 45), (99, 100), (0, 100)])
@pytest.mark.parametrize("is_known", [True, False])
def test_zeros_within_a_queue_end_it(
    tmp_path: Path, hole: tuple[int, int], *, is_known: bool
) -> None:
    """
    Bisection may find a later end. Entries that were on disk are missing then; of a
    store of another program it is not known, and it writes them again.
    """
    root = make_replicas(tmp_path, 1, 600, with_queues=True)[0]
    path = next((root / "consumequeue" / "T1" / "1").iterdir())
    with path.open("r+b") as file:
        file.seek(hole[0] * 20)
        file.write(bytes((hole[1] - hole[0]) * 20))
    if not is_known:
        shutil.rmtree(root / "meta")
        (root / "abort").touch()
    assert segment(root, 0).exists()

    found = check(root)

    bad = [one for one in found if one.is_bad]
    assert is_known == bool(bad), bad
    assert not [one for one in found if one.verdict is Verdict.UNKNOWN]
    if bad:
        (one,) = bad
        assert f"entries from queue offset {hole[0]} on are missing" in one.evidence[0]
