"""
A record is one line of JSON, whether the core makes it or not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from lib.oracle.json_records import (
    BASE,
    MANY,
    PLAIN,
    RECORDS,
    Parts,
    expected,
    laid_out,
    records_of,
)
from numpy.typing import NDArray

from pystore.message.constants import COMPRESSED
from pystore.message.message import Message
from pystore.message.record_lines import RecordLines
from pystore.store.commit_log import CommitLog


def written(lines: RecordLines, rows: NDArray[Any], data: memoryview) -> list[str]:
    """
    The lines of all rows.
    """
    chunks = lines.chunks(rows, data, int(rows["offset"][0]))
    text = b"".join(bytes(chunk) for chunk in chunks).decode()
    assert text.endswith("\n")
    return text.removesuffix("\n").split("\n")


@given(records=st.lists(RECORDS, min_size=1, max_size=6), bodies=st.booleans())
@example(records=[(b"", b"\xff", MANY, *PLAIN[3:])], bodies=True)
@example(records=[(b"", b"t", b"a\x01b\x02a\x01c\x02", *PLAIN[3:])], bodies=False)
@example(records=[PLAIN, (b"", b"t", MANY, *PLAIN[3:]), PLAIN], bodies=True)
@example(records=[(b"\x00" * 400_000, *PLAIN[1:])], bodies=True)
def test_each_line_is_that_of_python(records: list[Parts], *, bodies: bool) -> None:
    """
    Any bytes in body, topic and properties, any hosts and numbers.
    """
    rows, data = laid_out(records)

    assert [
        expected(record, bodies=bodies) for record in records_of(rows, data, BASE)
    ] == written(RecordLines(bodies=bodies), rows, data)


def test_a_line_longer_than_the_buffer_is_written_whole() -> None:
    """
    Beside short ones.
    """
    records = [PLAIN, (b"\x01" * 4_000_000, *PLAIN[1:]), PLAIN]
    rows, data = laid_out(records)

    lines = written(RecordLines(bodies=True), rows, data)

    assert [0, 4_000_000, 0] == [json.loads(line)["bodyLength"] for line in lines]
    assert "\x01" * 4_000_000 == json.loads(lines[1])["body"]


def stored(root: Path, message: Message) -> tuple[NDArray[Any], memoryview]:
    """
    The row of a message in a log, and its bytes.
    """
    with CommitLog(root, segment_size=65536) as log:
        log.append(message)
        (rows,) = (rows.copy() for rows in log.scan())
        return rows, memoryview(log.read(0).data)


def test_a_body_that_is_not_what_its_flag_says_stays_as_stored(tmp_path: Path) -> None:
    """
    The caller gets the reason, which is in the line, too.
    """
    rows, data = stored(tmp_path / "s", Message("t", b"plain", sys_flag=COMPRESSED))
    reasons: list[str] = []
    lines = RecordLines(bodies=True, decompress=True, on_bad_body=reasons.append)

    (line,) = map(json.loads, written(lines, rows, data))

    assert "plain" == line["body"]
    assert [line["bodyError"]] == reasons
    assert "uncompressedLength" not in line


def test_digests_are_added_on_request(tmp_path: Path) -> None:
    """
    With them a line is the whole record.
    """
    rows, data = stored(tmp_path / "s", Message("t", b"x", tags="a"))
    (record,) = records_of(rows, data, 0)

    (line,) = map(
        json.loads, written(RecordLines(bodies=False, digests=True), rows, data)
    )

    assert record.as_dict() == line
    assert record.data.hex() != line["propertiesRawHex"] != ""
