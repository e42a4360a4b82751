"""
The commit file of a run, written and read.
"""

from __future__ import annotations

import json

import pytest

from pystore.errors import FormatError
from pystore.spark.export.commit import (
    Commit,
    DamagedRange,
    ExportedFile,
    ExportShape,
    LogGap,
    StoreRange,
    format_commit,
    parse_commit,
)
from pystore.spark.source.offsets import StreamOffset

COMMIT = Commit(
    run=7,
    shape=ExportShape(("offset", "body"), ("a*",), "zstd"),
    ranges=(StoreRange("/s", 10, 90, 3),),
    positions={"/s": StreamOffset(90, 80, 42), "/empty": StreamOffset(0)},
    gaps=(LogGap("/s", 5, 10, "deleted"),),
    damages=(DamagedRange("/s", 50, 7, "bad"),),
    files=(ExportedFile("topic=a/x.parquet", "/s", 3, 1000, 10, 80),),
)


def test_a_commit_is_read_as_it_was_written() -> None:
    """
    Its keys have the form of all JSON of pystore.
    """
    content = format_commit(COMMIT)

    assert COMMIT == parse_commit(content, "p")
    assert 3 == COMMIT.records
    whole = json.loads(content)
    assert 1 == whole["schemaVersion"]
    assert 10 == whole["ranges"][0]["fromOffset"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        format_commit(COMMIT)[:-20],
        b'{"schemaVersion": 1}',
        format_commit(COMMIT).replace(b'"version": 1', b'"version": 2'),
    ],
)
def test_an_invalid_commit_is_an_error_with_its_path(content: bytes) -> None:
    """
    The exported end must not be guessed.
    """
    with pytest.raises(FormatError, match=r"^/d/run=7: cannot be read"):
        parse_commit(content, "/d/run=7")


def test_a_commit_of_a_newer_version_is_an_error() -> None:
    """
    The error says so in one line.
    """
    content = format_commit(COMMIT).replace(
        b'"schemaVersion": 1', b'"schemaVersion": 2'
    )

    with pytest.raises(FormatError, match="newer pystore"):
        parse_commit(content, "p")
