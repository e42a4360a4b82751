"""
Spark sessions whose JVM ends with them.

PySpark keeps the first JVM of a process for all later sessions, with its memory limit.
A bench may need more memory, and a bench that measures a JVM needs a new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pystore.spark.session import java_problem, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["bench_session"]

_SECONDS_TO_END = 30


@contextmanager
def bench_session(
    master: str, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """
    Yields a session in a JVM of its own; without Java the test is skipped.

    Args:
        master: as in Spark.
        settings: more settings of Spark.
    """
    problem = java_problem()
    if problem:
        pytest.skip(problem)
    with open_session("bench", master, settings) as session:
        yield session
    _end_jvm()


def _end_jvm() -> None:
    from pyspark import SparkContext  # noqa: PLC0415

    # There is no public call; the JVM ends when its standard input is closed.
    context: Any = SparkContext
    gateway = context._gateway
    context._gateway = context._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_SECONDS_TO_END)
