"""
The options of the Spark source: valid and refused values.
"""

from __future__ import annotations

import json

import pytest

from pystore.errors import InvalidError
from pystore.spark.plan.options import StreamOptions, parse_options


def test_names_are_not_case_sensitive_and_numbers_have_units() -> None:
    """
    Spark passes names as the user wrote them.
    """
    found = parse_options(
        {
            "path": "/a",
            "includeBody": "True",
            "FROMOFFSET": "1k",
            "toOffset": "2 GiB".replace(" ", ""),
            "onDamage": "Report",
            "rowsPerBatch": "10",
            "splitBytes": "64m",
            "columns": "topic, offset ,",
        }
    )

    assert found.include_body
    assert (1024, 2 << 30) == (found.from_offset, found.to_offset)
    assert ("report", 10, 64 << 20) == (
        found.on_damage,
        found.rows_per_batch,
        found.split_bytes,
    )
    assert ("topic", "offset") == found.columns


def test_several_paths_come_as_json() -> None:
    """
    ``load([...])`` makes one option of them.
    """
    assert ("/a", "/b") == parse_options({"paths": json.dumps(["/a", "/b"])}).paths


def test_a_stream_has_options_of_its_own() -> None:
    """
    A limit, a start, and the end to read up to.
    """
    found = parse_options(
        {
            "path": "/a",
            "startingOffsets": "4k",
            "maxBytesPerTrigger": "1g",
            "maxRecordsPerTrigger": "1000",
            "readUpTo": "Published",
            "failOnDataLoss": "false",
        },
        is_stream=True,
    )

    assert (
        StreamOptions(4096, published=True, max_bytes=1 << 30, max_records=1000)
        == found.stream
    )
    assert not found.fail_on_data_loss
    assert StreamOptions() == parse_options({"path": "/a"}, is_stream=True).stream


@pytest.mark.parametrize(
    ("name", "is_stream"), [("toOffset", True), ("readUpTo", False)]
)
def test_options_of_the_other_kind_are_refused(name: str, is_stream: bool) -> None:
    """
    The user would expect an effect.
    """
    given = {"path": "/a", name: "published" if name == "readUpTo" else "7"}
    parse_options(given)
    parse_options(given, is_stream=not is_stream)

    with pytest.raises(InvalidError, match=f"option {name} is (not )?for streams"):
        parse_options(given, is_stream=is_stream)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "no path: call .load"),
        ({"path": "/a", "includeBodies": "true"}, "'includebodies' is unknown"),
        (
            {"path": "/a", "includeBody": "yes"},
            "includeBody 'yes': use true or false",
        ),
        ({"path": "/a", "onDamage": "ignore"}, "one of fail, report, skip"),
        ({"path": "/a", "fromOffset": "-1"}, "fromOffset '-1': use a number from 0"),
        ({"path": "/a", "rowsPerBatch": "0"}, "a number from 1 on"),
        ({"path": "/a", "splitBytes": "m"}, "splitBytes 'm'"),
        ({"path": "/a", "topics": " , "}, "topics is empty"),
        ({"path": "/a", "queueIds": "1,x"}, "queueIds '1,x': use numbers"),
        ({"path": "/a", "maxClockSkew": "soon"}, "maxClockSkew 'soon': use seconds"),
        ({"path": "/a", "fromTime": "noon"}, "fromTime 'noon': use a time"),
        ({"path": "/a", "startingOffsets": "soon"}, "startingOffsets 'soon'"),
        ({"path": "/a", "readUpTo": "end"}, "use confirmed or published"),
        ({"path": "/a", "maxBytesPerTrigger": "0"}, "maxBytesPerTrigger '0'"),
    ],
)
def test_invalid_options_are_refused(given: dict[str, str], message: str) -> None:
    """
    The error has the option's own name and says what is valid.
    """
    with pytest.raises(InvalidError, match=message):
        parse_options(given)


def test_times_without_a_zone_are_in_utc() -> None:
    """
    In whole milliseconds.
    """
    given = {"path": "/a", "fromTime": "1970-01-02", "toTime": "1970-01-01T01:00+00:59"}

    found = parse_options(given | {"topics": "a*, b"})

    assert (86_400_000, 60_000) == (found.from_ms, found.to_ms)
    assert ("a*", "b") == found.topics


def test_queues_and_the_skew_of_clocks_are_numbers() -> None:
    """
    A queue may have a negative id.
    """
    found = parse_options({"path": "/a", "queueIds": "0, -2", "maxClockSkew": "60s"})

    assert (frozenset([0, -2]), 60_000) == (found.queues, found.skew_ms)


def test_properties_of_a_catalog_are_no_options() -> None:
    """
    ``CREATE TABLE ... USING pystore`` passes them, and each option twice.
    """
    given = {"path": "/a", "owner": "root", "option.path": "/a", "provider": "pystore"}

    assert parse_options({"path": "/a"}) == parse_options(given)
