"""
``pystore spark compact`` without Spark. Other tests are in tests/spark/compact.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.command_line import run
from lib.spark.compaction import LocalJobs, make_store

from pystore.cli.spark import compact
from pystore.spark.compact.plan import CompactionChoice
from pystore.spark.compact.run import survey
from pystore.spark.compact.sizes import file_sizes

CHOICE = CompactionChoice((), keep_tombstones=False, sizes=file_sizes(100000, 4600))


def test_help_describes_the_kept_records_and_the_result() -> None:
    """
    It has an example.
    """
    output = run("spark", "compact", "--help").stdout

    for words in ("nothing is written", "tombstone", "RocketMQ 5.3", "Example:"):
        assert words in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--queue-file-bytes", "10"), "hold no entry"),
        (("--log-file-bytes", str(2**40)), "at most 2147483647"),
        (("--log-file-bytes", "x"), "not a valid int"),
        ((), "Missing argument"),
    ],
)
def test_wrong_usage_is_an_error(
    words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    """
    Before Spark is started.
    """
    stores = [tmp_path] if words else []

    result = run("spark", "compact", *words, *stores)

    assert 2 == result.exit_code
    assert message in result.stderr


def test_a_dry_run_shows_a_table_and_what_would_be_removed(tmp_path: Path) -> None:
    """
    There is a line for each queue, and a note about records without keys.
    """
    store = make_store(tmp_path, records=600)
    found = survey(LocalJobs(), store, CHOICE)

    header, rule, *lines = "\n".join(compact._lines(found, store, None)).splitlines()

    assert header.split()[:4] == ["queue", "records", "bytes", "tombstones"]
    assert set(rule) == {"-", " "}
    assert [f"T{topic} {queue}" for topic in range(3) for queue in range(3)] == [
        line[:4] for line in lines[:9]
    ]
    assert f"would be removed; up to offset {found.plan.end}" in lines[9]
    assert "have no keys" in lines[10]
    assert "nothing was written" in lines[11]
    done = compact._lines(found, store, tmp_path / "out")
    assert str(tmp_path / "out" / "compaction") in done[-1]


def test_json_has_the_same_numbers(tmp_path: Path) -> None:
    """
    Queue by queue.
    """
    store = make_store(tmp_path, records=600)
    found = survey(LocalJobs(), store, CHOICE)

    report = compact._json(found, store, None)

    assert found.plan.end == report["endOffset"]
    assert (None, None, False) == (report["into"], report["error"], report["resumed"])
    queues = report["queues"]
    assert [queue.records for queue in found.queues] == [
        queue["keptRecords"] for queue in queues
    ]
    assert sum(queue["records"] for queue in queues) == sum(
        queue.count.records for queue in found.queues
    )
