"""
``pystore spark export``: what is told before Spark starts.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.command_line import make_store, run


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--columns", "topics"), "column 'topics'"),
        (("--columns", "topic", "--bodies"), "--columns says it all"),
        (("--on-damage", "ignore"), "--on-damage"),
        (("--compression", "lz4"), "--compression"),
        (("--from", "-1"), "--from"),
    ],
)
def test_wrong_usage_is_told_at_once(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    """
    With exit code 2, and nothing is made.
    """
    store = make_store(tmp_path / "store", 1)

    result = run("spark", "export", store, "--into", tmp_path / "out", *options)

    assert 2 == result.exit_code
    assert said in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_missing_store_is_told_at_once(tmp_path: Path) -> None:
    """
    Spark takes seconds to start.
    """
    result = run("spark", "export", tmp_path / "no", "--into", tmp_path / "out")

    assert 3 == result.exit_code
    assert f"{tmp_path}/no: no such directory" in result.stderr


def test_help_says_when_a_run_is_seen() -> None:
    """
    With an example to copy.
    """
    told = run("spark", "export", "--help").stdout

    assert "each record exactly once" in told.replace("\n  ", " ")
    assert "pystore spark export /data/store --into" in told
