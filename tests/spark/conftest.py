"""
One Spark session for all of these tests; without Java they are skipped.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pystore.spark import register


@pytest.fixture(scope="session", autouse=True)
def environment() -> None:
    """
    Workers run this Python, and everything stays on the loopback.
    """
    if shutil.which("java") is None:
        pytest.skip("needs Java 17 or 21")
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # The JVMs run for seconds only, so the second compiler does not pay off.
    os.environ["SPARK_SUBMIT_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="session")
def session(environment: None) -> Iterator[SparkSession]:  # noqa: ARG001
    """
    A session of two threads that knows the format.
    """
    builder = SparkSession.builder.master("local[2]")
    session = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    register(session)
    yield session
    session.stop()
