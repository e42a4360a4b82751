"""
Splits to Arrow batches: golden stores field by field, with and without the core.
"""

from __future__ import annotations

import hashlib
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lib.oracle.golden_data import GoldenStore
from lib.spark.reading import make_store, read
from lib.store.logs import SEGMENT_SIZE, make_root, open_log

from pystore.errors import CorruptError
from pystore.message.constants import MAGIC_V1, MAGIC_V2
from pystore.message.message import Message
from pystore.spark.plan.options import SourceOptions
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.splits import plan_splits
from pystore.spark.scan import task
from pystore.spark.scan.python_segment import PythonSegment

Reader = Callable[..., list[dict[str, Any]]]


@pytest.fixture(params=["core", "plain"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """
    ``read`` with the core, and as on an executor without the wheel.
    """
    if request.param == "plain":
        monkeypatch.setattr(task, "_open", PythonSegment)
    return read


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """
    A store of 400 records in several segments, copied while it is written.
    """
    return make_store(tmp_path)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """
    A row in the form of the golden lines.
    """
    row = dict(row)
    for name in ("storeTimestamp", "bornTimestamp"):
        row[name] = round(row[name].timestamp() * 1000)
    row["bodySha256"] = hashlib.sha256(row.pop("body")).hexdigest()
    return row


def test_a_store_of_java_is_read_field_by_field(
    either: Reader, golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    Every column of a golden line, and every record once.
    """
    rows = [_shown(row) for row in either(golden_root)]

    lines = golden_store.records
    assert [line["offset"] for line in lines] == [row["offset"] for row in rows]
    for line, row in zip(lines, rows, strict=True):
        shared = (line.keys() & row.keys()) - {"keys"}
        assert {k: line[k] for k in shared} == {k: row[k] for k in shared}
        assert (line["keys"] or None) == row["keys"]
        assert len(shared) >= 19


def test_batches_have_at_most_the_requested_rows(either: Reader, root: Path) -> None:
    """
    Together they hold all rows.
    """
    assert 400 == len(either(root, rows_per_batch=7))


def test_a_selection_leaves_rows_out(either: Reader, root: Path) -> None:
    """
    Their bodies are not gathered.
    """
    selection = Selection(topics=frozenset(["T1"]), queues=frozenset([2]))

    rows = either(root, ["topic", "queueId", "bodyLength", "body"], selection=selection)

    assert 33 == len(rows)
    assert {("T1", 2)} == {(row["topic"], row["queueId"]) for row in rows}
    assert all(len(row["body"]) == row["bodyLength"] for row in rows)


def test_a_changed_body_fails_is_reported_or_is_skipped(
    either: Reader, root: Path
) -> None:
    """
    The error names offset and advice; a report is a row; a skip logs a warning.
    """
    rows = read(root, ["offset", "size"])
    victim = rows[200]
    path = (
        root / "commitlog" / f"{victim['offset'] // SEGMENT_SIZE * SEGMENT_SIZE:020d}"
    )
    at = victim["offset"] % SEGMENT_SIZE + 100
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)

    with pytest.raises(CorruptError, match=r"body CRC 0x.*onDamage=report"):
        either(root)
    reported = either(root, ["offset", "size", "topic"], on_damage="report")
    # Only a body has this damage, and bodies are not read.
    assert not any(row["damage"] for row in reported)
    reported = either(root, ["offset", "size", "body"], on_damage="report")
    (bad,) = [row for row in reported if row["damage"]]
    assert (victim["offset"], victim["size"]) == (bad["offset"], bad["size"])
    assert bad["body"] is None
    assert 400 == len(reported)
    assert 399 == len(either(root, on_damage="skip"))


def test_garbage_hides_one_record(either: Reader, root: Path) -> None:
    """
    The next record proves itself, and the splits of a segment report the range once.
    """
    rows = read(root, ["offset", "size"])
    victim = next(row for row in rows if row["offset"] > SEGMENT_SIZE + 20000)
    path = root / "commitlog" / f"{SEGMENT_SIZE:020d}"
    content = bytearray(path.read_bytes())
    at = victim["offset"] - SEGMENT_SIZE
    content[at : at + 8] = b"garbage!"
    path.write_bytes(content)
    end = victim["offset"] + victim["size"]

    for split_bytes in (None, 10_000):
        found = either(
            root, ["offset", "size"], on_damage="report", split_bytes=split_bytes
        )
        wanted = [
            row["offset"] for row in rows if not victim["offset"] < row["offset"] < end
        ]
        assert wanted == [row["offset"] for row in found]
        (bad,) = [row for row in found if row["damage"]]
        assert (victim["offset"], end - victim["offset"]) == (
            bad["offset"],
            bad["size"],
        )
        assert "magic 0x" in bad["damage"]


@pytest.mark.parametrize("at", [0, 1, 2, 3, 4, 5, 6, 7, 28, 35, 84, 87])
def test_one_flipped_bit_of_a_head_hides_one_record(
    either: Reader, root: Path, at: int
) -> None:
    """
    In the size, the magic, the embedded offset or the size of the body.
    """
    rows = read(root, ["offset", "size"])
    victim = rows[150]
    base = victim["offset"] // SEGMENT_SIZE * SEGMENT_SIZE
    path = root / "commitlog" / f"{base:020d}"
    content = bytearray(path.read_bytes())
    content[victim["offset"] - base + at] ^= 4
    path.write_bytes(content)

    found = either(root, ["offset", "size"], on_damage="report")

    assert [row["offset"] for row in rows] == [row["offset"] for row in found]
    (bad,) = [row for row in found if row["damage"]]
    assert (victim["offset"], victim["size"]) == (bad["offset"], bad["size"])


def test_times_are_those_of_every_record(either: Reader, tmp_path: Path) -> None:
    """
    A failover to a clock that is behind: no row is lost, with bodies and without.
    """
    root = make_store(tmp_path)
    every = read(root, ["offset", "storeTimestamp"])
    first = min(row["storeTimestamp"] for row in every)
    for base in (2, 3):
        _set_back(root, base * SEGMENT_SIZE, 10_000)
    since = round(first.timestamp() * 1000) - 5000
    selection = Selection(from_ms=since)
    late = [
        row["offset"] for row in every if row["offset"] // SEGMENT_SIZE not in (2, 3)
    ]

    for columns in (["offset"], ["offset", "bodyLength", "topic", "msgId"]):
        found = either(root, columns, selection=selection)
        assert late == [row["offset"] for row in found]
    with_bodies = either(root, ["offset", "body"], selection=selection)
    assert late == [row["offset"] for row in with_bodies]


def _set_back(root: Path, base: int, ms: int) -> None:
    """
    Sets back the store times of a segment's records, as a clock that is behind.
    """
    path = root / "commitlog" / f"{base:020d}"
    content = bytearray(path.read_bytes())
    at = 0
    while int.from_bytes(content[at + 4 : at + 8]) in (MAGIC_V1, MAGIC_V2):
        time = int.from_bytes(content[at + 56 : at + 64]) - ms
        content[at + 56 : at + 64] = time.to_bytes(8)
        at += int.from_bytes(content[at : at + 4])
    path.write_bytes(content)


def test_a_task_makes_few_file_system_calls_for_any_number_of_segments(
    tmp_path: Path,
) -> None:
    """
    On a shared file system each is a round trip. Counted by strace.
    """
    root = make_root(tmp_path)
    with open_log(root) as log:
        for _ in range(200):
            log.append(Message("T", bytes(40_000)).form)
    split = plan_splits(
        [root], SourceOptions((str(root),)), Selection(), with_epochs=False
    )[50]
    script = (
        "import pickle, sys\n"
        "from pathlib import Path\n"
        "from pystore.spark.plan.schema import choose_columns\n"
        "from pystore.spark.plan.selection import Selection\n"
        "from pystore.spark.scan.task import read_split\n"
        "import pystore.spark.scan.core_segment, pystore.spark.scan.core_columns\n"
        "columns = choose_columns(None, with_body=True, with_damage=False)\n"
        f"split = pickle.loads({pickle.dumps(split)!r})\n"
        "def run():\n"
        "    return list(read_split(split, columns, Selection(), on_damage='fail',"
        " rows_per_batch=8192))\n"
        "run()\n"
        "Path('/begin-of-task').exists()\n"
        "assert 1 == sum(batch.num_rows for batch in run())\n"
        "Path('/end-of-task').exists()\n"
    )
    trace = tmp_path / "trace"
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    command = [sys.executable, "-c", script]
    subprocess.run(
        ["strace", "-f", "-e", "trace=%file,%desc", "-o", trace, *command],
        check=True,
    )

    lines = trace.read_text(errors="replace").splitlines()
    first = next(at for at, line in enumerate(lines) if "/begin-of-task" in line)
    last = next(at for at, line in enumerate(lines) if "/end-of-task" in line)
    calls = [line for line in lines[first + 1 : last] if "mmap(NULL" not in line]
    assert len(calls) <= 50, "\n".join(calls)
