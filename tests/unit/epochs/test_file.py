"""
The epoch file against what RocketMQ's own reader and writer did.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystore.epochs.file import EpochFile, encode_epochs, read_epochs
from pystore.epochs.table import EpochTable
from pystore.errors import FormatError

GOLDEN = Path(__file__).parents[2] / "golden" / "epoch"


def as_bytes(text: str | None) -> bytes | None:
    """The content of a golden file, which may be absent."""
    return None if text is None else text.encode()


def test_reading_agrees_with_java_but_an_unreadable_file_is_an_error() -> None:
    """
    RMQ-R16: Java continues without entries although a file is there; pystore stops.
    """
    stricter = backups = 0
    with (GOLDEN / "read.jsonl").open() as lines:
        for line in lines:
            case = json.loads(line)
            main, backup = as_bytes(case["file"]), as_bytes(case["bak"])
            entries = [(epoch, start) for epoch, start, _ in case["entries"]]
            if main is None and backup is None:
                assert read_epochs(main, backup) is None
            elif entries:
                read = read_epochs(main, backup)
                assert read is not None
                assert entries == read.table.pairs(), case
                backups += read.is_backup
            else:
                with pytest.raises(FormatError, match="epochFileCheckpoint"):
                    read_epochs(main, backup)
                stricter += case["initResult"] is True
    assert stricter > 0
    assert backups > 0


def test_writing_gives_the_bytes_that_java_left() -> None:
    """Every file in the histories is its table, and reads back as it."""
    written = 0
    with gzip.open(GOLDEN / "histories.jsonl.gz", "rt") as lines:
        for line in lines:
            for op in json.loads(line)["ops"]:
                if not op["entriesAfter"] or op["fileAfter"] is None:
                    continue
                table = EpochTable.of((epoch, s) for epoch, s, _ in op["entriesAfter"])
                content = op["fileAfter"].encode()
                assert content == encode_epochs(table)
                assert EpochFile(table, is_backup=False) == read_epochs(content, None)
                written += 1
    assert written > 0


def test_the_files_that_java_left_are_read() -> None:
    """Each real file is read and written back byte for byte."""
    files = sorted(GOLDEN.glob("files/epochFileCheckpoint.*"))
    assert files
    for file in files:
        read = read_epochs(file.read_bytes(), None)
        assert read is not None
        assert file.read_bytes() == encode_epochs(read.table)


def test_an_empty_table_is_written_and_read_back_empty() -> None:
    """RMQ-R142: entries that a cut removed do not come back from an old file."""
    content = encode_epochs(EpochTable())
    assert b"0\n0\n" == content
    assert EpochFile(EpochTable(), is_backup=False) == read_epochs(content, None)


def test_an_empty_list_beside_a_backup_reads_the_backup_as_java_does() -> None:
    """Java reads the .bak of a file without entries."""
    table = EpochTable.of([(1, 0)])
    read = read_epochs(encode_epochs(EpochTable()), encode_epochs(table))
    assert EpochFile(table, is_backup=True) == read


GOOD = encode_epochs(EpochTable.of([(7, 7000), (8, 8000)]))


@pytest.mark.parametrize(
    ("content", "backup", "message"),
    [
        (b"", None, "epochFileCheckpoint: line 1: '' is not a number"),
        (b"", GOOD, "epochFileCheckpoint: line 1: '' is not a number"),
        (b"2\n", GOOD, "epochFileCheckpoint: line 2: '' is not a number"),
        (b"\xff\xfe\x00", None, "byte 0 is not UTF-8, and no .bak"),
        (b"x" + GOOD, GOOD, "line 1: 'x2' is not a number"),
        (GOOD[:-3], None, "CRC-32 .*, but line 2 has 773307083, and no .bak"),
        (b"3" + GOOD[1:], None, "2 entries, but line 1 has 3, and no .bak"),
        (b"1\n0\n-5-100\n", None, "line 3 is not epoch-start, and no .bak"),
        (b"1\n0\n5-1 \n", GOOD, "line 3: '1 ' is not a number"),
        (b"2\n0\n5-1\n4-9\n", None, "epoch 4 from 9 does not follow epoch 5 from 1"),
        (b"2\n0\n4-9\n5-9\n", None, "epoch 5 from 9 does not follow epoch 4 from 9"),
        (b"2\n0\n-5-1\nx-9\n", GOOD, "line 4: 'x' is not a number"),
        (None, b"1\n5\n1-0\n", "missing, and its .bak: CRC-32"),
        (b"0\n0\n", b"1\n5\n1-0\n", "lists no entry, and its .bak: CRC-32"),
    ],
)
def test_the_error_of_a_bad_file_has_its_name_and_advice(
    content: bytes | None, backup: bytes | None, message: str
) -> None:
    """One line names the file, the problem, and the remedy."""
    with pytest.raises(FormatError, match=message) as caught:
        read_epochs(content, backup)
    print(caught.value)
    assert "\n" not in str(caught.value)
    assert "restore it from a replica's copy, or remove it" in str(caught.value)


def test_every_half_written_file_is_seen() -> None:
    """A file cut at any byte is an error, or has the same table."""
    for size in range(len(GOOD)):
        try:
            read = read_epochs(GOOD[:size], None)
        except FormatError:
            continue
        # Only the last line end may be missing; Java reads that file too.
        assert len(GOOD) - 1 == size
        assert read == read_epochs(GOOD, None)


@given(st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)), max_size=8))
def test_tables_survive_the_file(pairs: list[tuple[int, int]]) -> None:
    """A written table is read back, also with epochs of more than 32 bits."""
    epochs = sorted({epoch for epoch, _ in pairs})
    starts = sorted({start for _, start in pairs})
    table = EpochTable.of(zip(epochs, starts, strict=False))
    assert EpochFile(table, is_backup=False) == read_epochs(encode_epochs(table), None)


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_garbage_never_raises_anything_else(
    content: bytes, backup: bytes | None
) -> None:
    """Any bytes give a table or a FormatError of one line."""
    text = ""
    try:
        read_epochs(content, backup)
    except FormatError as error:
        text = str(error)
    assert "\n" not in text
