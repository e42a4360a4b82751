"""
What a Spark session needs, and one line for what is missing.
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
    A program that answers as Java does: on the error stream.
    """
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    program.chmod(0o755)
    return folder


def test_a_machine_without_java_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    One line, with the command.
    """
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    problem = java_problem()

    assert problem is not None
    assert problem.startswith("no Java here")
    assert "apt-get install openjdk-17-jre-headless" in problem


def test_a_java_home_without_a_java_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It is looked for there and nowhere else, as Spark does.
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
    Spark itself would fail with a page of class versions.
    """
    home = _java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(home))

    assert f"{home}/bin/java is Java {old}, too old" in str(java_problem())


@pytest.mark.parametrize("version", ["17.0.12", "21.0.4", "25"])
def test_a_java_that_is_new_enough_is_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """
    17 and whatever comes after.
    """
    says = f'openjdk version "{version}"'
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path, says)))

    assert java_problem() is None


def test_a_java_that_does_not_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    As a wrapper without a Java behind it.
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


def test_a_machine_without_java_starts_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The same line, from the session.
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
    ("line", "said"),
    [
        (
            "ModuleNotFoundError: No module named 'pystore'",
            "the workers' Python has no pystore: install pystore",
        ),
        (
            "pystore.errors.NotAStoreError: /data/a: no such directory",
            "in a task: /data/a: no such directory",
        ),
        ("PermissionError: [Errno 13] refused", r"in a task: \[Errno 13\] refused"),
    ],
)
def test_an_error_in_a_task_becomes_one_line(line: str, said: str) -> None:
    """
    Not pages of frames of two languages.
    """
    errors = pytest.importorskip("pyspark.errors")
    text = _TRACE.format(line=line)

    with pytest.raises(UnavailableError, match=said) as raised, job_errors():
        raise errors.PySparkException(text)

    assert "\n" not in str(raised.value)


def test_an_error_without_a_trace_says_its_first_line() -> None:
    """
    As of a cluster that is not there.
    """
    errors = pytest.importorskip("pyspark.errors")

    with pytest.raises(UnavailableError, match="Spark: no master"), job_errors():
        raise errors.PySparkException("no master\n at org.apache")
