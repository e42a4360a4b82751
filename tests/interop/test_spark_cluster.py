"""
Jobs on a real cluster: a master and two workers, and spark-submit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.spark_cluster import Cluster, start_cluster
from lib.spark.verify_job import SEGMENT, make_replicas

SCRIPT = "from pystore.cli import main\nmain()\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """
    A master and two workers.
    """
    with start_cluster(tmp_path_factory.mktemp("cluster"), 2) as found:
        yield found


def test_a_job_runs_by_spark_submit_on_two_workers(
    cluster: Cluster, tmp_path: Path
) -> None:
    """
    A missing segment of one of three replicas is found, and nothing else.
    """
    roots = make_replicas(tmp_path)
    (roots[1] / "commitlog" / f"{SEGMENT:020d}").unlink()
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)

    options = ["spark", "verify", "--json", "--replicas", "all"]
    done = cluster.submit(script, *options, *roots)

    assert 1 == done.returncode, done.stderr[-3000:]
    found = json.loads(done.stdout)
    (bad,) = [one for one in found["findings"] if one["isBad"]]
    assert (str(roots[1]), SEGMENT, "ABSENT") == (
        bad["store"],
        bad["segment"],
        bad["verdict"],
    )


@pytest.mark.slow
def test_workers_without_the_package_are_reported_in_one_line(
    cluster: Cluster, tmp_path: Path
) -> None:
    """
    The line has the interpreter, the missing package, and what to do.
    """
    (root,) = make_replicas(tmp_path, 1)
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)

    done = cluster.submit(
        script, "spark", "verify", root, PYSPARK_PYTHON=str(bare / "bin" / "python")
    )

    assert 3 == done.returncode, done.stderr[-3000:]
    # spark-submit merges both streams of the driver.
    lines = [line for line in done.stdout.splitlines() if line.startswith("pystore:")]
    assert 1 == len(lines), done.stderr[-3000:]
    assert "the workers' Python has no pystore" in lines[0]
    assert "PYSPARK_PYTHON" in lines[0]
