"""
``pystore spark verify``: planted damage is reported, and nothing else is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from lib.command_line import run, run_json
from lib.oracle.golden_data import STORES
from lib.spark.verify_job import SEGMENT, make_replicas
from lib.store.segment_files import flip, segment
from pyspark.sql import SparkSession

from pystore.errors import FullError
from pystore.message.message import Message
from pystore.spark.verify import output
from pystore.spark.verify import run as run_module
from pystore.store.commit_log import CommitLog

pytestmark = pytest.mark.usefixtures("session")


def _damage(folder: Path) -> list[Path]:
    """
    Three replicas with one wrong bit, block, segment and tail.
    """
    (root,) = make_replicas(folder, 1, records=1500)
    shutil.copytree(root, folder / "b")
    for name in "ab":
        with CommitLog(folder / name) as log:
            for _ in range(400):
                log.append(Message("T1", f"from {name} ".encode() * 30))
    shutil.copytree(root, folder / "c")
    commitlog = folder / "c" / "commitlog"
    bit = commitlog / f"{SEGMENT:020d}"
    data = bytearray(bit.read_bytes())
    data[40_000] ^= 16
    bit.write_bytes(data)
    (commitlog / f"{3 * SEGMENT:020d}").unlink()
    block = root / "commitlog" / f"{2 * SEGMENT:020d}"
    data = bytearray(block.read_bytes())
    data[4096:8192] = bytes(4096)
    block.write_bytes(data)
    return [folder / name for name in "abc"]


def test_no_golden_store_is_damaged(tmp_path: Path) -> None:
    """
    RocketMQ's own stores have no seals, so they are UNSEALED; nothing is bad.
    """
    for store in STORES:
        store.extract(tmp_path)

    found = run_json("spark", "verify", tmp_path / "*")

    assert len(STORES) == len(found["stores"])
    assert ["UNSEALED"] == list(found["verdicts"])
    records = {store.name: len(store.records) for store in STORES}
    assert records == {Path(s["store"]).name: s["records"] for s in found["stores"]}
    assert [] == found["findings"]


def test_planted_damage_is_named_and_nothing_else(tmp_path: Path) -> None:
    """
    One bit, one block, one missing segment, a tail of another log.
    """
    roots = _damage(tmp_path)

    found = run_json("spark", "verify", "--replicas", "all", *roots, exit_code=1)

    bad = {
        (Path(one["store"]).name, one["segment"]): one["verdict"]
        for one in found["findings"]
        if one["isBad"]
    }
    parted = {key for key, verdict in bad.items() if verdict == "DIVERGENT"}
    assert {"b"} == {store for store, _ in parted}
    first = min(segment for _, segment in parted)
    assert {
        ("c", SEGMENT): "CORRUPT",
        ("a", 2 * SEGMENT): "CORRUPT",
        ("c", 3 * SEGMENT): "ABSENT",
    } == {key: bad[key] for key in bad.keys() - parted}
    places = [
        one["firstDifference"] for one in found["findings"] if one["segment"] == first
    ]
    assert first < places[0] < first + SEGMENT
    assert {"OK", "CORRUPT", "ABSENT", "DIVERGENT"} == set(found["verdicts"])


def test_a_round_leaves_rows_a_summary_and_a_page(tmp_path: Path) -> None:
    """
    The next round has the next number.
    """
    (root,) = make_replicas(tmp_path, 1)
    into = tmp_path / "out"

    first = run("spark", "verify", "--into", into, root)
    second = run_json("spark", "verify", "--into", into, root)

    assert 0 == first.exit_code, first.output
    assert first.stdout.splitlines()[-1] == f"report: {into / 'report.html'}"
    assert 1 == second["round"]
    rows = ds.dataset(into / "audit", partitioning="hive").to_table()
    assert {0, 1} == set(rows["round"].to_pylist())
    assert json.loads((into / "summary.json").read_text()) == second


def test_rounds_under_a_budget_continue_where_the_last_one_ended(
    tmp_path: Path,
) -> None:
    """
    Until every segment was checked.
    """
    (root,) = make_replicas(tmp_path, 1, records=1000)
    into = tmp_path / "out"
    options = ["--continuous", "--rounds", "3", "--pause", "0", "--budget", "150k"]

    done = run("spark", "verify", *options, "--into", into, root)

    assert 0 == done.exit_code, done.output
    rows = ds.dataset(into / "audit", partitioning="hive").to_table().to_pylist()
    seen = [(row["round"], row["segment"]) for row in rows]
    assert [(0, 0), (0, SEGMENT), (1, 2 * SEGMENT), (1, 3 * SEGMENT)] == seen[:4]
    assert 4 * SEGMENT in {segment for _, segment in seen}


def test_a_round_that_cannot_be_written_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Hours of reading are not lost with the disk that the report needs.
    """

    def refuse(*_: object) -> None:
        raise FullError("no space left", path=str(tmp_path))

    monkeypatch.setattr(output, "write_output", refuse)
    (root,) = make_replicas(tmp_path, 1, records=600)
    flip(segment(root, SEGMENT), 30_000)

    done = run("spark", "verify", "--into", tmp_path / "out", root)

    assert 3 == done.exit_code
    assert f"  CORRUPT: {root} segment {SEGMENT}" in done.stdout.splitlines()
    assert done.stderr.splitlines()[-1].endswith("no space left")


def test_a_round_says_how_many_segments_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    After each piece of work, and nothing after the last one.
    """
    monkeypatch.setattr(run_module, "_WAVE_BYTES", 0)
    (root,) = make_replicas(tmp_path, 1, records=400)
    last = len(list((root / "commitlog").iterdir())) - 1

    ways: list[list[str | Path]] = [[], ["--into", tmp_path / "out"]]
    for options in ways:
        done = run("spark", "verify", *options, root)

        assert [
            f"round 0: {left} segments are left to check" for left in range(last, 0, -1)
        ] == done.stderr.splitlines()


def test_rounds_keep_what_earlier_ones_found(tmp_path: Path) -> None:
    """
    A bad segment that a later round did not read, and a store that is gone.
    """
    roots = make_replicas(tmp_path, 2, records=600)
    path = roots[0] / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[40_000] ^= 16
    path.write_bytes(data)
    into = tmp_path / "out"
    spark = ("spark", "verify", "--replicas", "none", "--into", into)
    run_json(*spark, *roots, exit_code=1)
    shutil.rmtree(roots[1])

    found = run_json(*spark, "--budget", "1k", *roots, exit_code=1)

    assert {(str(roots[0]), "CORRUPT"), (str(roots[1]), "ABSENT")} == {
        (one["store"], one["verdict"]) for one in found["findings"]
    }
    data[40_000] ^= 16
    path.write_bytes(data)
    found = run_json(*spark, "--forget", roots[1], roots[0])
    assert [] == found["findings"]


def test_invalid_usage_is_a_one_line_error(tmp_path: Path) -> None:
    """
    A path that matches nothing, and a budget without a directory.
    """
    missing = run("spark", "verify", tmp_path / "no*")
    forgetful = run("spark", "verify", "--budget", "1g", tmp_path)

    assert (3, 2) == (missing.exit_code, forgetful.exit_code)
    assert "no store matches" in missing.stderr
    assert 1 == len(missing.stderr.splitlines())
    assert "--budget needs --into" in forgetful.stderr


def test_a_machine_without_java_says_what_to_install(tmp_path: Path) -> None:
    """
    The error is one line, and the exit code is 3.
    """
    CommitLog(tmp_path, segment_size=SEGMENT).close()
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "pystore", "spark", "verify", str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 3 == done.returncode
    assert "install Java 17 or 21" in done.stderr
    assert 1 == len(done.stderr.splitlines())


_JOB = """
import os, signal, sys, threading, time
from pathlib import Path
from pystore.spark.session import open_session
from pystore.spark.verify.executors import on_spark
from pystore.spark.verify.run import verify_stores

folder, *stores = sys.argv[1:]

def first(name):
    try:
        os.close(os.open(f"{folder}/{name}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

def run(tasks, function, size):
    def clumsy(task):
        if task.base == 65536 and first("killed"):
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
            os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
        if task.base == 131072 and first("slow"):
            threading.Event().wait(20)
        return function(task)
    return on_spark(session)(tasks, clumsy, lambda task: 1 << 28)

settings = {"spark.speculation": "true", "spark.speculation.multiplier": "1.1",
            "spark.speculation.quantile": "0.3", "spark.speculation.interval": "50ms"}
with open_session("test", "local-cluster[2,1,1024]", settings) as session:
    found = verify_stores(run, stores, replicas="all").verdicts
    words = sorted((Path(v.store).name, v.segment, str(v.verdict)) for v in found)
    print("verdicts", words, flush=True)
"""


@pytest.mark.slow
def test_an_executor_that_dies_or_lags_changes_nothing(
    tmp_path: Path, session: SparkSession
) -> None:
    """
    Its tasks run again elsewhere, perhaps at the same time, and each result counts
    once.
    """
    del session  # a cluster of its own
    roots = make_replicas(tmp_path, records=600)
    script = tmp_path / "job.py"
    script.write_text(_JOB)

    done = subprocess.run(
        [sys.executable, script, tmp_path, *roots],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )

    segments = len(list((roots[0] / "commitlog").iterdir()))
    used = [base * SEGMENT for base in range(segments)]
    wanted = sorted((root.name, base, "OK") for root in roots for base in used)
    assert f"verdicts {wanted}" in done.stdout, done.stderr[-3000:]
    assert (tmp_path / "killed").exists()
    assert (tmp_path / "slow").exists()
