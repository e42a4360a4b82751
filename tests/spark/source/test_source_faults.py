"""
Damaged stores and killed processes under a query, with all damage of `tests/golden`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lib.oracle.golden_data import VARIANTS, GoldenStore, apply_patch
from lib.spark.reading import read
from lib.store.logs import SEGMENT_SIZE, make_root, open_log
from pyspark.sql import SparkSession

from pystore.errors import CorruptError
from pystore.message.message import Message

_NAMED = [
    pytest.param(store, damage, id=f"{store.name}-{damage['variant']}")
    for store, damage in VARIANTS
]


@pytest.mark.parametrize(("store", "damage"), _NAMED)
def test_each_damage_fails_is_reported_or_is_skipped(
    store: GoldenStore, damage: dict[str, Any], tmp_path: Path
) -> None:
    """
    Reported ranges are between whole records, skipping leaves out only these, the error
    names the first one. Undamaged records are all read.
    """
    root = store.extract(tmp_path)
    apply_patch(root, damage["patch"])
    reported = read(root, on_damage="report")

    ends = [0, *(row["offset"] + row["size"] for row in reported)]
    assert all(end <= row["offset"] for end, row in zip(ends, reported, strict=False))
    rows = [row for row in reported if row["damage"] is None]
    for row in reported:
        row.pop("body" if row["damage"] else "damage")
    skipped = read(root, ["offset", "size"], on_damage="skip")
    bad = [row["offset"] for row in reported if "body" not in row]
    if bad:
        with pytest.raises(CorruptError) as raised:
            read(root, on_damage="fail")
        assert bad[0] == raised.value.offset
        assert "\n" not in str(raised.value)
        assert "onDamage=report" in str(raised.value)
    else:
        assert rows == read(root, on_damage="fail")
    assert {row["offset"] for row in rows} <= {row["offset"] for row in skipped}
    _check_untouched(store, root, damage, {row["offset"] for row in rows})


def _check_untouched(
    store: GoldenStore, root: Path, damage: dict[str, Any], found: set[int]
) -> None:
    touched = {Path(step["file"]).name for step in damage["patch"]}
    last = max(found, default=0)
    for path in (root / "commitlog").iterdir():
        base, size = int(path.name), store.segment_size
        if path.name not in touched and base + size <= last:
            offsets = [one["offset"] for one in store.records]
            wanted = {at for at in offsets if base <= at < base + size}
            assert wanted <= found


@pytest.mark.parametrize(("store", "damage"), _NAMED[::40])
def test_spark_reports_the_damage_of_a_golden_store(
    session: SparkSession, store: GoldenStore, damage: dict[str, Any], tmp_path: Path
) -> None:
    """
    The rows equal those without Spark.
    """
    root = store.extract(tmp_path)
    apply_patch(root, damage["patch"])
    reader = session.read.format("pystore").option("includeBody", "true")

    for mode in ("report", "skip"):
        wanted = read(root, ["offset", "size", "body"], on_damage=mode)
        table = reader.option("onDamage", mode).load(str(root)).orderBy("offset")
        assert [(row["offset"], row["size"]) for row in wanted] == [
            (row.offset, row.size) for row in table.collect()
        ]


def test_a_pattern_that_matches_no_store_is_an_error(
    session: SparkSession, tmp_path: Path
) -> None:
    """
    An empty table would look like an empty log.
    """
    with pytest.raises(Exception, match="no store matches: a store is a directory"):
        session.read.format("pystore").load(f"{tmp_path}/brokers-*").count()


_KILLING = """
import os, signal, sys
from pathlib import Path
from pyspark.sql import SparkSession
from pystore.spark import register

root, marker = sys.argv[1:]

def kill_once(rows):
    for number, row in enumerate(rows):
        if number == 30 and not os.path.exists(marker):
            Path(marker).touch()
            daemon = os.getppid()  # this worker's daemon; its parent is the executor
            stat = Path(f"/proc/{daemon}/stat").read_text()
            os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
        yield row.offset, row.size

builder = SparkSession.builder.master("local-cluster[2,1,1024]")
for key, value in {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.speculation": "true",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
}.items():
    builder = builder.config(key, value)
session = builder.getOrCreate()
register(session)
table = session.read.format("pystore").option("rowsPerBatch", "10").load(root)
rows = sorted(table.select("offset", "size").rdd.mapPartitions(kill_once).collect())
print("rows", len(rows), hash(tuple(rows)), os.path.exists(marker))
session.stop()
"""


def _run(script: str, *arguments: Path | str, **more: str) -> str:
    """
    The output of a driver in a folder without pystore.
    """
    folder = Path(str(arguments[0])).parent
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=folder,
        env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"} | more,
    )
    return done.stdout + done.stderr[-4000:]


@pytest.mark.slow
def test_a_killed_executor_changes_nothing(tmp_path: Path) -> None:
    """
    Its tasks run again elsewhere, some twice at once: each record is read once.
    """
    root = make_root(tmp_path)
    with open_log(root) as log:
        for _ in range(600):
            log.append(Message("T", bytes(500)).form)
        assert log.ends().published_end > 5 * SEGMENT_SIZE
    wanted = [(row["offset"], row["size"]) for row in read(root, ["offset", "size"])]

    printed = _run(_KILLING, root, tmp_path / "killed")

    assert f"rows 600 {hash(tuple(wanted))} True" in printed


_BARE = """
import sys
from pystore.spark import register
from pystore.spark.session import job_errors, open_session

with open_session("bare", "local[1]") as session:
    register(session)
    try:
        with job_errors():
            print(session.read.format("pystore").load(sys.argv[1]).count())
    except Exception as error:
        print("error:", error)
"""


def test_workers_without_pystore_are_a_one_line_error(tmp_path: Path) -> None:
    """
    They run another interpreter, which has no pystore.
    """
    root = make_root(tmp_path)
    python = Path(sys.base_prefix) / "bin" / "python3"

    printed = _run(_BARE, root, PYSPARK_PYTHON=str(python))

    (line,) = [line for line in printed.splitlines() if line.startswith("error:")]
    assert "the workers' Python has no p" in line
    assert "pystore-commitlog[spark]" in line
