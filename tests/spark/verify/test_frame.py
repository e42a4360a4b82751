"""
A round as a table of Spark.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lib.spark.verify_job import SEGMENT, make_replicas
from pyspark.sql import SparkSession

from pystore.errors import NotAStoreError
from pystore.spark.verify.frame import COLUMNS, frame_of, row_of, verify
from pystore.spark.verify.run import VerifyRun
from pystore.spark.verify.verdicts import SegmentVerdict, Verdict

BEGAN = 1_800_000_000.25
GOOD = SegmentVerdict("g", "/a", 0, Verdict.OK, length=2**40, digest="ab", seconds=0.5)
BAD = SegmentVerdict(
    "g",
    "/b",
    None,
    Verdict.CORRUPT,
    name="x",
    is_bad=True,
    replicas=2,
    blocks=(0, 255),
    first_difference=2**50,
    evidence=["one", "two"],
)


def round_of(*verdicts: SegmentVerdict) -> VerifyRun:
    """
    A round with these verdicts.
    """
    return VerifyRun(7, list(verdicts), ["/a", "/b"], 1.0, BEGAN)


def test_a_row_has_a_value_for_each_column() -> None:
    """
    In the order of the columns.
    """
    assert list(COLUMNS) == list(row_of(BAD, round_of(BAD)))


def test_a_table_has_the_columns_in_their_types(session: SparkSession) -> None:
    """
    Even without a row: types are not inferred from values.
    """
    frame = frame_of(session, round_of())

    assert COLUMNS == dict(frame.dtypes)
    assert [] == frame.collect()


def test_every_field_of_a_verdict_is_in_its_row(session: SparkSession) -> None:
    """
    Unknown values are null.
    """
    one, other = frame_of(session, round_of(GOOD, BAD)).collect()

    assert (0, "OK", False, 2**40, [], None, "ab", 0.5) == (
        one["segment"],
        one["verdict"],
        one["isBad"],
        one["length"],
        one["blocks"],
        one["firstDifference"],
        one["digest"],
        one["seconds"],
    )
    assert (7, "g", "/b", None, "x", "CORRUPT", True, 2) == (
        other["round"],
        other["group"],
        other["store"],
        other["segment"],
        other["name"],
        other["verdict"],
        other["isBad"],
        other["replicas"],
    )
    assert ([0, 255], 2**50, ["one", "two"]) == (
        other["blocks"],
        other["firstDifference"],
        other["evidence"],
    )


def test_a_row_says_when_its_round_began(session: SparkSession) -> None:
    """
    As a timestamp, for any time zone of the session or of this machine.
    """
    frame = frame_of(session, round_of(GOOD))
    (row,) = frame.selectExpr("unix_micros(verifiedAt) AS at").collect()

    assert int(BEGAN * 1_000_000) == row["at"]
    found = row_of(GOOD, round_of())["verifiedAt"]
    assert datetime.fromtimestamp(BEGAN, UTC) == found


def test_stores_are_verified_into_a_table(
    session: SparkSession, tmp_path: Path
) -> None:
    """
    There is a row for each segment of each replica, with the bad one.
    """
    roots = make_replicas(tmp_path, 3, 400)
    path = roots[1] / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[30_000] ^= 1
    path.write_bytes(data)

    frame = verify(session, [str(root) for root in roots], replicas="all", number=3)

    (bad,) = frame.where("isBad").collect()
    assert ("CORRUPT", str(roots[1]), 0, 30_000, [0], 3) == (
        bad["verdict"],
        bad["store"],
        bad["segment"],
        bad["firstDifference"],
        bad["blocks"],
        bad["round"],
    )
    assert 6 == frame.count()
    assert [0, SEGMENT] == sorted(
        row["segment"] for row in frame.select("segment").distinct().collect()
    )


def test_one_path_names_many_stores_by_a_glob(
    session: SparkSession, tmp_path: Path
) -> None:
    """
    One text is one path.
    """
    make_replicas(tmp_path, 2, 50)

    frame = verify(session, str(tmp_path / "*"), replicas="none")

    assert {"UNSEALED"} == {row["verdict"] for row in frame.collect()}
    assert 2 == frame.select("group").distinct().count()


def test_a_path_that_is_no_store_is_refused(
    session: SparkSession, tmp_path: Path
) -> None:
    """
    The error names the path.
    """
    with pytest.raises(NotAStoreError):
        verify(session, str(tmp_path / "none"))


_CONNECT = """
import sys
from pyspark.sql import SparkSession
from pystore.spark.verify.frame import verify

session = SparkSession.builder.remote("local[2]").getOrCreate()
assert type(session).__module__ == "pyspark.sql.connect.session"
found = verify(session, sys.argv[1:], replicas="all")
print(sorted({row.verdict for row in found.select("verdict").collect()}))
session.stop()
"""


def test_stores_are_verified_through_spark_connect(
    session: SparkSession, tmp_path: Path
) -> None:
    """
    By a real server. Its sessions have no context.
    """
    pytest.importorskip("grpc")
    del session  # a session of its own
    roots = make_replicas(tmp_path, 2, 400)

    done = subprocess.run(
        [sys.executable, "-c", _CONNECT, *roots],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert "['OK']\n" == done.stdout, done.stderr
