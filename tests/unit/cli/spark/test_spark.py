"""
``pystore spark``: the group of the jobs.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.command_line import run


def test_help_says_what_the_jobs_need() -> None:
    """
    Java, the extra, and how to submit a job to a cluster.
    """
    output = run("spark", "--help").stdout

    assert "Java 17 or 21" in output
    assert "spark-submit" in output


@pytest.mark.parametrize(
    ("name", "message"), [("no", "no such directory"), ("no*", "no store matches")]
)
def test_a_missing_store_is_an_error_before_java_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    """
    Spark takes seconds to start, and there is Java is missing.
    """
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))

    result = run("spark", "verify", tmp_path / name)

    assert 3 == result.exit_code
    (line,) = result.stderr.splitlines()
    assert f"{tmp_path}/{name}: {message}" in line
