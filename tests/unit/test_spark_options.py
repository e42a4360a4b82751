"""
The options of the Spark source: what is taken, and what is refused in one line.
"""

from __future__ import annotations

import json

import pytest

from pystore.errors import InvalidError
from pystore.spark.options import parse_options


def test_names_are_of_any_case_and_numbers_have_units() -> None:
    """
    Spark hands names on as the user wrote them.
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


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "no path: .load"),
        ({"path": "/a", "includeBodies": "true"}, "'includebodies' is unknown"),
        (
            {"path": "/a", "includeBody": "yes"},
            "includeBody 'yes': it is true or false",
        ),
        ({"path": "/a", "onDamage": "ignore"}, "one of fail, report, skip"),
        ({"path": "/a", "fromOffset": "-1"}, "fromOffset '-1': it is a number from 0"),
        ({"path": "/a", "rowsPerBatch": "0"}, "a number from 1 on"),
        ({"path": "/a", "splitBytes": "m"}, "splitBytes 'm'"),
    ],
)
def test_what_means_nothing_is_refused(given: dict[str, str], said: str) -> None:
    """
    With the option's own name, and what would be right.
    """
    with pytest.raises(InvalidError, match=said):
        parse_options(given)
