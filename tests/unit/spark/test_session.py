"""
Requirements of a Spark session, and one line for what is missing.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pystore.errors import UnavailableError
from pystore.spark.session import java_problem, job_errors, open_session


def _java(folder: Path, says: str, code: int = 0) -> Path:
    """
    A program that prints a version to the error stream, as Java does.
    """
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    program.chmod(0o755)
    return folder


def test_a_machine_without_java_gets_a_line_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The line has the command.
    """
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    problem = java_problem()

    assert problem is not None
    assert problem.startswith("Java is missing")
    assert "apt-get install openjdk-17-jre-headless" in problem


def test_a_java_home_without_a_java_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Java is searched there only, as Spark does.
    """
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert f"JAVA_HOME={tmp_path} has no bin/java" in str(java_problem())


@pytest.mark.parametrize(
    ("says", "old"),
    [
        ('java version "1.8.0_401"', "8"),
        ('openjdk version "11.0.22" 2024-01-16', "11"),
        ('openjdk version "16" 2021-03-16', "16"),
    ],
)
def test_a_java_that_is_too_old_is_named_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, old: str
) -> None:
    """
    Spark would fail with a page of class versions.
    """
    home = _java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(home))

    assert f"{home}/bin/java is Java {old}, too old" in str(java_problem())


@pytest.mark.parametrize("version", ["17.0.12", "21.0.4", "25"])
def test_a_java_that_is_new_enough_is_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """
    17 and newer.
    """
    says = f'openjdk version "{version}"'
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path, says)))

    assert java_problem() is None


def test_a_java_that_does_not_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A wrapper without a Java installation.
    """
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path, "no runtime", 1)))

    assert f"{tmp_path}/bin/java does not run" in str(java_problem())


@pytest.mark.parametrize("package", ["pyspark", "pyarrow"])
def test_a_missing_package_is_named_with_the_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    """
    Before anything is started.
    """
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path, 'openjdk version "21"')))
    real = importlib.util.find_spec

    def find(name: str, *rest: Any) -> Any:
        if name == package:
            return None
        return object() if name == "pyspark" else real(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    opened = open_session("test")

    with pytest.raises(UnavailableError, match=f"has no {package}: pip") as raised:
        opened.__enter__()

    assert sys.executable in str(raised.value)


def test_a_session_of_spark_connect_needs_no_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    But a package more, with the extra that installs it.
    """
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "grpc" else object()
    )

    line = r"has no grpc: pip install 'pystore-commitlog\[connect\]'"
    with pytest.raises(UnavailableError, match=line):
        open_session("test", "sc://127.0.0.1:1").__enter__()
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    with pytest.raises(UnavailableError, match=line):
        open_session("test").__enter__()


def test_a_machine_without_java_starts_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The session raises the same line.
    """
    pytest.importorskip("pyspark")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    before = dict(os.environ)

    with pytest.raises(UnavailableError, match="install Java 17 or 21"):
        open_session("test").__enter__()

    assert before == dict(os.environ)


_TRACE = """An error occurred while calling o1.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure: Traceback:
  File "worker.py", line 10, in main
{line}

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException
"""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "ModuleNotFoundError: No module named 'pystore'",
            "the workers' Python has no pystore: install pystore",
        ),
        (
            "ModuleNotFoundError: No module named 'pystore._core'",
            "the workers' Python has no pystore._core: install pystore",
        ),
        (
            "pystore.errors.NotAStoreError: /data/a: no such directory",
            "in a task: /data/a: no such directory",
        ),
        ("PermissionError: [Errno 13] refused", r"in a task: \[Errno 13\] refused"),
    ],
)
def test_an_error_in_a_task_becomes_one_line(line: str, message: str) -> None:
    """
    The traces of two languages fill pages.
    """
    errors = pytest.importorskip("pyspark.errors")
    text = _TRACE.format(line=line)

    with pytest.raises(UnavailableError, match=message) as raised, job_errors():
        raise errors.PySparkException(text)

    assert "\n" not in str(raised.value)


def test_an_error_without_a_trace_is_its_first_line() -> None:
    """
    For example of a cluster that cannot be reached.
    """
    errors = pytest.importorskip("pyspark.errors")

    with pytest.raises(UnavailableError, match="Spark: no master"), job_errors():
        raise errors.PySparkException("no master\n at org.apache")
