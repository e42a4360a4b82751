"""
Names in an exported directory.
"""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from pystore.errors import InvalidError
from pystore.spark.export.layout import (
    day_folder,
    run_name,
    run_number,
    topic_folder,
)


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("orders", "orders"),
        ("%RETRY%group", "%25RETRY%25group"),
        ("a/b=c:d", "a%2Fb%3Dc%3Ad"),
        ("tab\tand space", "tab%09and space"),
        ("größe", "größe"),
        ("..", ".."),
        ("", "__HIVE_DEFAULT_PARTITION__"),
        (None, "__HIVE_DEFAULT_PARTITION__"),
        ("__HIVE_DEFAULT_PARTITION__", "%5F_HIVE_DEFAULT_PARTITION__"),
    ],
)
def test_topics_are_escaped_as_spark_does(topic: str | None, name: str) -> None:
    """
    Unescaping gives the topic.
    """
    assert f"topic={name}" == topic_folder(topic)
    assert "/" not in topic_folder(topic)
    if topic:
        assert topic == unquote(name)


def test_a_topic_too_long_for_a_directory_is_an_error() -> None:
    """
    Bytes count, not characters.
    """
    with pytest.raises(InvalidError, match="too long"):
        topic_folder("ö" * 130)


def test_days_and_runs_have_names() -> None:
    """
    The name of another directory has no run number.
    """
    assert "day=2026-01-31" == day_folder("2026-01-31")
    assert "day=__HIVE_DEFAULT_PARTITION__" == day_folder(None)
    assert 12 == run_number(run_name(12))
    assert [None] * 4 == [
        run_number(name) for name in ("run=0", "run=01", "run=x", "_export")
    ]
