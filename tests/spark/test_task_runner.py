"""
Tasks on the executors of a session, classic and of Spark Connect.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import pytest
from lib.spark.compaction import CHOICE
from lib.spark.exports import Growing, visible
from pyspark.sql import SparkSession

from pystore.errors import StorageError, UnavailableError
from pystore.spark.compact.jobs import SparkJobs
from pystore.spark.compact.run import survey
from pystore.spark.export.job import export
from pystore.spark.export.run import ExportRequest
from pystore.spark.task_runner import parallelism_of, run_tasks
from pystore.spark.verify.executors import on_spark


def test_results_come_in_the_order_of_the_tasks(session: SparkSession) -> None:
    """
    For any number of partitions.
    """
    assert [] == run_tasks(session, [], str)
    for partitions in (None, 1, 3):
        found = run_tasks(session, list(range(20)), str, partitions)
        assert [str(number) for number in range(20)] == found
    assert 2 == parallelism_of(session)


def test_the_error_of_a_task_is_one_line(session: SparkSession) -> None:
    """
    Its own text, without the traces of two languages.
    """

    def fail(task: int) -> None:
        raise StorageError(f"/a/b: no {task}")

    with pytest.raises(UnavailableError) as caught:
        run_tasks(session, [7], fail)
    assert "in a task: /a/b: no 7" == str(caught.value)


def test_a_killed_worker_is_named_as_that(session: SparkSession) -> None:
    """
    Most often the system killed it, because the memory was too small.
    """

    def die(_: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(UnavailableError, match=r"exited unexpectedly.*memory"):
        run_tasks(session, [1], die)


def _descriptions(session: SparkSession) -> set[str]:
    """
    The descriptions of all jobs so far, as Spark's pages show them.
    """
    context: Any = session.sparkContext._jsc
    jobs = context.sc().statusStore().jobsList(None)
    described = (jobs.apply(number).description() for number in range(jobs.size()))
    return {one.get() for one in described if one.isDefined()}


def test_jobs_say_what_they_are(session: SparkSession, tmp_path: Path) -> None:
    """
    An export, a compaction and a check; later jobs of the user have no description.
    """
    store = Growing.new(tmp_path / "store", 30)

    run_tasks(session, [1], str, description="two words")
    export(session, ExportRequest((str(store.root),), tmp_path / "out"))
    survey(SparkJobs(session), store.root, CHOICE)
    on_spark(session)([1], str, lambda _: 1)

    wanted = {
        "two words",
        f"pystore export into {tmp_path / 'out'}",
        f"pystore compact {store.root}: count",
        "pystore verify: 1 tasks",
    }
    assert wanted <= _descriptions(session)
    assert session.sparkContext.getLocalProperty("spark.job.description") is None


def test_a_worker_without_the_wheel_gets_a_line_that_says_what_to_install(
    session: SparkSession,
) -> None:
    """
    The tasks of a compaction and of a check need the core.
    """

    class _Refusing(MetaPathFinder):
        def find_spec(self, name: str, *_: object) -> None:
            if name == "pystore._core":
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    def _without_wheel(_: int) -> None:
        for name in [one for one in sys.modules if one.startswith("pystore")]:
            del sys.modules[name]
        refusing = _Refusing()
        sys.meta_path.insert(0, refusing)
        try:
            importlib.import_module("pystore.spark.compact.scan")
        finally:
            sys.meta_path.remove(refusing)

    with pytest.raises(UnavailableError, match=r"has no pystore._core: install"):
        run_tasks(session, [1], _without_wheel)


def test_an_export_needs_no_context_of_spark(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A session of Spark Connect has none.
    """
    store = Growing.new(tmp_path / "store", 30)
    monkeypatch.setattr(
        type(session), "__module__", "pyspark.sql.connect.session", raising=False
    )

    assert 2 == parallelism_of(session)
    export(session, ExportRequest((str(store.root),), tmp_path / "out"))

    assert 30 == len(visible(tmp_path / "out"))
