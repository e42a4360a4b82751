"""
The examples of docs/spark.md run as they are printed.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pystore.message.message import Message
from pystore.store.commit_log import CommitLog

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def test_the_examples_of_the_page_run_one_after_another(
    session: SparkSession,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """
    They run in a folder with a store.
    """
    assert session is not None
    with CommitLog(tmp_path / "store", segment_size=65536) as log:
        log.append(Message("fruit", b"apple"))
    names: dict[str, object] = {}

    # The session keeps its first current directory.
    page = PAGE.read_text()
    for name in ("store", "messages", "compact"):
        page = page.replace(f'"{name}"', f'"{tmp_path}/{name}"')
    for code in re.findall(r"^```py\n(.*?)^```", page, re.M | re.S):
        exec(compile(code, str(PAGE), "exec"), names)

    assert "fruit" in capfd.readouterr().out
    assert {str(tmp_path / "store"): 0} == names["lag"]
