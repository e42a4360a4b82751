"""
Compactions on Spark: the same bytes as without it, even if processes are killed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from lib.command_line import run, run_json
from lib.spark import compaction_kill
from lib.spark.compaction import CHOICE, LocalJobs, digest, make_store
from pyspark.sql import SparkSession

from pystore.errors import CorruptError
from pystore.fs.layout import segment_path
from pystore.message.message import Message
from pystore.spark.compact.jobs import SparkJobs
from pystore.spark.compact.run import compact, survey
from pystore.store.commit_log import CommitLog

KILLS = int(os.environ.get("SPARK_KILLS", "1"))
POINTS = (  # in the order in which a compaction reaches them
    ("driver", "os.rename", "plan.json", 1),
    ("driver", "os.rename", "layout.jsonl", 1),
    ("driver", "open", "/compactionLog/", 5),
    ("driver", "os.mkdir", "/copied/draft-", 2),  # by a worker, between segments
    ("driver", "os.symlink", "/logs/", 3),
    ("driver", "open", "position-checkpoint", 1),
    ("driver", "os.rename", "/out/compaction", 1),
    ("driver", "shutil.rmtree", "compacting", 1),
)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """
    A store of several segments.
    """
    return make_store(tmp_path)


@pytest.fixture
def whole(store: Path, tmp_path: Path) -> dict[str, str]:
    """
    The result of the same tasks in this process, one after the other.
    """
    compact(LocalJobs(), store, tmp_path / "whole", CHOICE)
    return digest(tmp_path / "whole")


def run_killed(
    store: Path, into: Path, master: str, point: tuple[str, str, str, int] | None
) -> subprocess.CompletedProcess[str]:
    """
    A compaction in a process of its own.

    Args:
        store: to be compacted.
        into: directory of the result.
        master: of Spark.
        point: the process to kill, and when; ``None``: no kill.
    """
    hook = into.parent / "hook"
    hook.mkdir(exist_ok=True)
    (hook / "sitecustomize.py").write_text(
        "import lib.spark.compaction_kill as k\nk.arm()\n"
    )
    environment = os.environ | {"PYTHONPATH": ":".join([str(hook), *sys.path])}
    environment.pop(compaction_kill.KILL, None)
    if point:
        ledger = into.parent / f"ledger-{random.randrange(2**32)}"
        words = " ".join(map(str, (*point, ledger)))
        environment[compaction_kill.KILL] = words
    return subprocess.run(
        [sys.executable, compaction_kill.__file__, str(store), str(into), master],
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_spark_makes_the_same_files(
    session: SparkSession, store: Path, whole: dict[str, str], tmp_path: Path
) -> None:
    """
    Every byte is equal, and so are the numbers, also in a dry run.
    """
    jobs = SparkJobs(session)

    output = survey(jobs, store, CHOICE)
    done = compact(jobs, store, tmp_path / "out", CHOICE)

    assert whole == digest(tmp_path / "out")
    assert output == done
    assert output == survey(LocalJobs(), store, CHOICE)


def test_the_command_shows_the_counts_and_then_compacts(
    session: SparkSession, store: Path, tmp_path: Path
) -> None:
    """
    Without --into nothing is written; the result is an ordinary log.
    """
    assert session is not None
    words = ("spark", "compact", "--topic", "T1", str(store))
    before = sorted(tmp_path.rglob("*"))

    table = run(*words)
    report = run_json(*words)

    assert 0 == table.exit_code, table.output
    assert "nothing was written" in table.stdout
    assert before == sorted(tmp_path.rglob("*"))
    done = run_json(*words, "--into", tmp_path / "out")
    assert report["queues"] == done["queues"]
    assert str(tmp_path / "out" / "compaction") == done["into"]
    again = run_json(*words, "--into", tmp_path / "out")
    assert again["resumed"]
    for queue in done["queues"]:
        view = tmp_path / "out" / "compaction" / "logs" / "T1" / str(queue["queueId"])
        lines = run("dump", view).stdout.splitlines()
        assert queue["keptRecords"] == len(lines)
        assert queue["lastQueueOffset"] >= json.loads(lines[-1])["queueOffset"]
        assert 0 == run("verify", view).exit_code


def test_a_compaction_can_be_read_as_a_table(
    session: SparkSession, store: Path, tmp_path: Path
) -> None:
    """
    All queues at once, by a glob; each key once in its queue.
    """
    compact(SparkJobs(session), store, tmp_path / "out", CHOICE)

    table = session.read.format("pystore").load(f"{tmp_path}/out/compaction/logs/*/*")

    keys = [(row.topic, row.queueId, row["keys"]) for row in table.collect()]
    assert len(keys) == len(set(keys)) > 100


def test_damage_is_exit_code_1_and_one_line(
    session: SparkSession, store: Path, tmp_path: Path
) -> None:
    """
    The line names path and offset; nothing is published.
    """
    path = sorted((store / "commitlog").iterdir())[2]
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)

    result = run("spark", "compact", store, "--into", tmp_path / "out")

    assert 1 == result.exit_code
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"pystore: {path}: record at offset 13"), line
    assert not (tmp_path / "out" / "compaction").exists()
    with pytest.raises(CorruptError):
        survey(SparkJobs(session), store, CHOICE)


@pytest.mark.usefixtures("session")
def test_zeros_in_the_newest_segment_are_damage_and_no_end(tmp_path: Path) -> None:
    """
    Records behind them may be the latest of their keys, so nothing is compacted.
    """
    store = tmp_path / "closed"
    with CommitLog(store) as log:
        offsets = [
            log.append(Message("T", b"body", keys=str(key))).offset for key in range(20)
        ]
    with segment_path(store, 0).open("r+b") as file:
        file.seek(offsets[10])
        file.write(bytes(64))

    result = run("spark", "compact", store, "--into", tmp_path / "out")

    assert 1 == result.exit_code
    (line,) = result.stderr.splitlines()
    assert f"nothing was written at offset {offsets[10]}" in line
    assert not (tmp_path / "out" / "compaction").exists()


def test_an_empty_choice_is_an_empty_compaction(
    session: SparkSession, store: Path, tmp_path: Path
) -> None:
    """
    No topic matches.
    """
    choice = replace(CHOICE, topics=("nothing",))

    found = compact(SparkJobs(session), store, tmp_path / "out", choice)

    assert () == found.queues
    assert (tmp_path / "out" / "compaction" / "position-checkpoint").exists()


@pytest.mark.slow
def test_a_run_continues_the_work_of_a_killed_driver(
    store: Path, whole: dict[str, str], tmp_path: Path
) -> None:
    """
    SIGKILL at one point after the other; the result is never incomplete.
    """
    into = tmp_path / "out"
    points = POINTS if len(POINTS) <= KILLS else POINTS[3::3][:KILLS]
    for number in range(KILLS):
        turn, at = divmod(number, len(points))
        point = points[at]
        if turn and not at:
            shutil.rmtree(into)
        if turn:
            point = (*point[:3], random.randrange(1, 20))
        killed = run_killed(store, into, "local[2]", point)
        print(point, killed.returncode)
        is_killed = killed.returncode == -signal.SIGKILL
        assert is_killed or (turn and not killed.returncode), killed.stderr[-2000:]
        assert not (into / "compaction").exists() or whole == digest(into)

    done = run_killed(store, into, "local[2]", None)

    assert done.stdout.splitlines()[-1] == "resumed", done.stderr[-2000:]
    assert whole == digest(into)
    assert ["compaction", "lock"] == sorted(path.name for path in into.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for the executor in /proc")
def test_an_executor_killed_in_the_middle_changes_nothing(
    store: Path, whole: dict[str, str], tmp_path: Path
) -> None:
    """
    SIGKILL ends one of two while it copies; its tasks run again on the other one.
    """
    into = tmp_path / "out"

    done = run_killed(
        store,
        into,
        "local-cluster[2,1,1024]",
        ("executor", "os.mkdir", "/copied/draft-", 2),
    )

    assert done.stdout.splitlines()[-1] == "done", done.stderr[-2000:]
    (ledger,) = tmp_path.glob("ledger-*")
    assert len(ledger.read_bytes()) > 2
    assert whole == digest(into)
