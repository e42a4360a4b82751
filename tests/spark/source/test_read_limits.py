"""
The limits of a batch, from Spark and from the options.
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
def test_options_become_limits_of_spark(
    options: StreamOptions, limit: ReadLimit
) -> None:
    """
    Passed back by Spark, they have the same meaning.
    """
    assert limit == default_limit(options)
    wanted = ReadLimits(3, options.max_bytes, options.max_records)
    assert wanted == limits_of(limit, options, 3)
    assert wanted == limits_of(None, options, 3)


def test_spark_may_request_all_data() -> None:
    """
    The options do not apply then.
    """
    options = StreamOptions(max_bytes=7, max_records=9)

    assert ReadLimits(2) == limits_of(ReadAllAvailable(), options, 2)


def test_an_unused_share_goes_to_the_others() -> None:
    """
    No share is empty.
    """
    limits = ReadLimits(4, max_bytes=100, max_records=2)

    assert (25, 1) == limits.share()
    limits = limits.without(10, 1)
    assert (30, 1) == limits.share()
    limits = limits.without(500, 1).without(0, 0)
    assert (1, 1) == limits.share()
