"""
The exit code of ``pystore spark verify`` for one store, without Spark.
"""

from __future__ import annotations

from pathlib import Path

from lib.spark.verify_job import run_here

from pystore.spark.verify.run import verify_stores
from pystore.spark.verify.summary import is_bad, is_unfinished

__all__ = ["spark_exit_code"]


def spark_exit_code(root: Path) -> tuple[int, list[str]]:
    """
    The exit code, and the first reasons.
    """
    found = verify_stores(run_here, [str(root)], replicas="none")
    texts = [text for one in found.verdicts for text in one.evidence]
    return (1 if is_bad(found) else 3 if is_unfinished(found) else 0), texts[:3]
