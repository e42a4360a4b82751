"""
Splits to Arrow batches: golden stores field by field, with and without the core.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lib.oracle.golden_data import GoldenStore
from lib.spark.reading import make_store, read
from lib.store.logs import SEGMENT_SIZE

from pystore.errors import CorruptError
from pystore.spark.plan.selection import Selection
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


def test_the_rest_of_a_segment_behind_garbage_is_one_damaged_range(
    either: Reader, root: Path
) -> None:
    """
    The next record is unknown; the next segment is read, and the splits of a segment
    report the range once.
    """
    rows = read(root, ["offset", "size"])
    victim = next(row for row in rows if row["offset"] > SEGMENT_SIZE + 20000)
    path = root / "commitlog" / f"{SEGMENT_SIZE:020d}"
    content = bytearray(path.read_bytes())
    at = victim["offset"] - SEGMENT_SIZE
    content[at : at + 8] = b"garbage!"
    path.write_bytes(content)
    end = 2 * SEGMENT_SIZE

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
