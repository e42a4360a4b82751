"""
The end of each part of the demo: the changed bit is reported, and no other one.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from lib.command_line import run_json
from lib.demo_library import make_library
from lib.spark.verify_job import make_replicas
from pyspark.sql import SparkSession

from pystore.demo.replicas import (
    AgreementReport,
    ReplicaReport,
    compare_replicas,
    show_replicas,
)
from pystore.demo.run import DemoReport, DemoSettings, run_demo
from pystore.fs.layout import segment_path


def test_the_changed_bit_is_named_and_nothing_else(
    tmp_path: Path, session: SparkSession
) -> None:
    """
    The page is kept, the copies are removed.
    """
    del session  # the job uses the session of this process
    (store,) = make_replicas(tmp_path, 1)

    found = show_replicas(store, tmp_path / "out", lambda *_: None)

    assert found.is_good
    assert found.planted is not None
    assert (found.planted,) == found.named
    assert "body CRC" in found.evidence or "property CRC" in found.evidence
    assert found.page is not None
    assert found.page.exists()
    assert {"a", "out"} == {path.name for path in tmp_path.iterdir()}


def test_without_java_the_demo_skips_this_part_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The report is still good.
    """
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    (store,) = make_replicas(tmp_path, 1)

    found = show_replicas(store, tmp_path / "out", lambda *_: None)

    assert found.is_good
    assert "install Java 17 or 21" in found.skipped


def test_real_replicas_are_compared_with_each_other(
    tmp_path: Path, session: SparkSession
) -> None:
    """
    Equal ones have no bad segment; a changed byte is named with its store.
    """
    del session  # the job uses the session of this process
    stores = make_replicas(tmp_path, 3)
    found = compare_replicas(stores, tmp_path / "one", lambda *_: None)
    path = segment_path(stores[1], 0)
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    other = compare_replicas(stores, tmp_path / "two", lambda *_: None)

    assert found.is_good
    assert found.segments > 0
    assert found.page is not None
    assert found.page.exists()
    assert not other.is_good
    assert {(str(stores[1]), 0)} == {(store, base) for store, base, _ in other.bad}


def test_without_java_replicas_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The report is still good.
    """
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    found = compare_replicas([tmp_path], tmp_path / "out", lambda *_: None)

    assert AgreementReport(skipped=found.skipped) == found
    assert found.is_good
    assert "install Java 17 or 21" in found.skipped


def test_a_wrong_or_missing_finding_is_not_good() -> None:
    """
    Another segment is reported, or the changed bit is not found.
    """
    planted = ("/c", 0)

    assert ReplicaReport(planted=planted, named=(planted,)).is_good
    assert not ReplicaReport(planted=planted, named=(planted, ("/b", 0))).is_good
    assert not ReplicaReport(planted=planted).is_good


def test_the_command_shows_the_report(
    tmp_path: Path, session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    With its keys in JSON, over a small library.
    """
    del session  # the job uses the session of this process
    library = make_library(tmp_path / "library")

    def small(settings: DemoSettings, *rest: object) -> DemoReport:
        changed = DemoSettings(settings.store, 3, 1, 2, 1 << 20, library)
        return run_demo(changed, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(import_module("pystore.cli.demo"), "run_demo", small)
    into = tmp_path / "out"

    words = ("--part", "store", "--directory", tmp_path / "d")
    found = run_json("demo", *words, "--report", into)

    assert str(into / "report.html") == found["replicas"]["page"]
    assert 1 == len(found["replicas"]["named"])
