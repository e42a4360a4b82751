"""
How much a batch may hold, by Spark and by the options.
"""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
)

from pystore.spark.plan.options import StreamOptions
from pystore.spark.source.read_limits import ReadLimits, default_limit, limits_of


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        (StreamOptions(), ReadAllAvailable()),
        (StreamOptions(max_bytes=7), ReadMaxBytes(7)),
        (StreamOptions(max_records=7), ReadMaxRows(7)),
        (StreamOptions(max_bytes=7, max_records=9), ReadMaxBytes(7)),
    ],
)
def test_spark_is_told_of_the_options(options: StreamOptions, limit: ReadLimit) -> None:
    """
    And what it hands back means the same as they do.
    """
    assert limit == default_limit(options)
    wanted = ReadLimits(3, options.max_bytes, options.max_records)
    assert wanted == limits_of(limit, options, 3)
    assert wanted == limits_of(None, options, 3)


def test_spark_may_want_everything() -> None:
    """
    Whatever the options say.
    """
    options = StreamOptions(max_bytes=7, max_records=9)

    assert ReadLimits(2) == limits_of(ReadAllAvailable(), options, 2)


def test_a_share_that_is_not_taken_is_for_the_others() -> None:
    """
    And nobody's is nothing.
    """
    limits = ReadLimits(4, max_bytes=100, max_records=2)

    assert (25, 1) == limits.share()
    limits = limits.without(10, 1)
    assert (30, 1) == limits.share()
    limits = limits.without(500, 1).without(0, 0)
    assert (1, 1) == limits.share()
