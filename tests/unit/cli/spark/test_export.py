"""
``pystore spark export``: checks before Spark starts.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.command_line import make_store, run


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--columns", "topics"), "column 'topics'"),
        (("--columns", "topic", "--bodies"), "--bodies cannot be used with --columns"),
        (("--on-damage", "ignore"), "--on-damage"),
        (("--compression", "lz4"), "--compression"),
        (("--from", "-1"), "--from"),
    ],
)
def test_wrong_usage_is_an_error_before_spark_starts(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    """
    The exit code is 2, and nothing is made.
    """
    store = make_store(tmp_path / "store", 1)

    result = run("spark", "export", store, "--into", tmp_path / "out", *options)

    assert 2 == result.exit_code
    assert message in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_missing_store_is_an_error_before_spark_starts(tmp_path: Path) -> None:
    """
    Spark takes seconds to start.
    """
    result = run("spark", "export", tmp_path / "no", "--into", tmp_path / "out")

    assert 3 == result.exit_code
    assert f"{tmp_path}/no: no such directory" in result.stderr


def test_help_says_when_the_files_of_a_run_appear() -> None:
    """
    It has an example to copy.
    """
    output = run("spark", "export", "--help").stdout

    assert "each record exactly once" in output.replace("\n  ", " ")
    assert "pystore spark export /data/store --into" in output
