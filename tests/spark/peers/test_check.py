"""
``pystore spark verify --peers`` on Spark, beside brokers that serve, processes all.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from lib.broker_process import until
from lib.command_line import run, run_json, segment_file
from lib.mended_set import SEGMENT, damage
from lib.verified_set import LYING, VerifiedSet, verified_set

pytestmark = pytest.mark.usefixtures("session")


def _verified(found: VerifiedSet, *words: str | Path, exit_code: int) -> Any:
    at = ("-a", found.controller.address, "--records", found.records)
    return run_json("spark", "verify", "--peers", *at, *words, exit_code=exit_code)


def _bad(report: Any) -> list[tuple[str, str, int, list[int]]]:
    return [
        (one["verdict"], one["store"], one["segment"], one["blocks"])
        for one in report["findings"]
        if one["isBad"]
    ]


def test_a_rotten_bit_is_marked_and_repaired_and_a_lying_broker_is_told(
    tmp_path: Path,
) -> None:
    """
    Three replicas: a bit of the second one rots, and the third one tells its seals
    without reading. Only what a broker confirms is marked, and only if it is asked for.
    """
    with verified_set(tmp_path, 6, three=LYING) as found:
        two, three = found.text("two"), found.text("three")
        rotten, hidden = 2 * SEGMENT, 4 * SEGMENT
        damage(tmp_path / "two", rotten, "payload bit")
        damage(tmp_path / "three", hidden, "payload bit")
        into = tmp_path / "into"

        # The brokers alone are asked, and nothing is marked.
        seen = _verified(found, "--direct-share", "0", exit_code=1)
        assert [("CORRUPT", two, rotten, [0])] == _bad(seen)
        line = f"{two} segment {rotten}: CORRUPT, blocks [0]"
        assert ([line], {}) == (seen["marks"]["confirmed"], seen["marks"]["outcomes"])
        assert [] == found.ask("list")["segments"]

        # The bytes are read, too: the lie is found, and is no reason for a mark.
        seen = _verified(
            found, "--direct-share", "1", "--mark", "--into", into, exit_code=1
        )
        wanted = [
            ("CORRUPT", two, rotten, [0]),
            ("CORRUPT", three, hidden, [0]),
        ]
        assert wanted == sorted(_bad(seen), key=lambda one: one[2])
        assert {"new": 1} == seen["marks"]["outcomes"]
        (over,) = seen["marks"]["passedOver"]
        assert f"{three} segment {hidden}: broker 3 says that its copy is whole" == over
        (mark,) = found.ask("list")["segments"]
        assert (rotten, ["2"]) == _place(mark), mark

        # It is repaired; a pause stops the next round before Spark starts.
        daemon = found.recovery()
        until(lambda: [] == found.ask("list")["segments"])
        assert 0 == daemon.stop()
        good = segment_file(tmp_path / "one", rotten).read_bytes()
        assert good == segment_file(tmp_path / "two", rotten).read_bytes()
        found.ask("pause", "verification", "--for", "1h")
        at = ("-a", found.controller.address, "--records", found.records)
        paused = run("spark", "verify", "--peers", *at, "--into", into)
        assert (3, "") == (paused.exit_code, paused.stdout)
        assert "verification is paused by " in paused.stderr
    _check_rows(into)


def _place(mark: Any) -> tuple[int, list[str]]:
    """
    The segment of a mark, and the brokers whose copies it names.
    """
    return mark["startOffset"], [str(one["brokerId"]) for one in mark["missing"]]


def _check_rows(into: Path) -> None:
    """
    Each row says which process was asked, and when.
    """
    rows = ds.dataset(into / "audit", partitioning="hive").to_table().to_pylist()
    assert {1, 2, 3} == {row["brokerId"] for row in rows}
    for row in rows:
        assert row["incarnation"].count("-") == 1
        assert (0, 0) == (row["begin"], row["cutGeneration"])
        assert row["segment"] + SEGMENT <= row["confirm"]
        assert abs(row["plannedAt"] - row["verifiedAt"]) < timedelta(minutes=10)
