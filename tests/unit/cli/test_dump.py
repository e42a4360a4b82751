"""
Every record is dumped as Java shows it.
"""

from __future__ import annotations

import base64
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from lib.command_line import make_store, overwrite, run, segment_file
from lib.oracle.golden_data import STORES, GoldenStore

from pystore.message.message import Message
from pystore.store.commit_log import CommitLog

LIBRARIES = ("lz4", "zstandard")
HAS_LIBRARIES = all(importlib.util.find_spec(name) for name in LIBRARIES)


def dump(root: Path, *options: str, exit_code: int = 0) -> list[dict[str, Any]]:
    """
    Dumps a store.
    """
    result = run("dump", root, *options)
    assert exit_code == result.exit_code, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def plain(line: dict[str, Any]) -> dict[str, Any]:
    """
    Returns a golden line as it is without decompression.
    """
    return {k: v for k, v in line.items() if not k.startswith("uncompressed")}


def test_every_golden_store_is_dumped_field_for_field(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    All records, all keys, in Java's order.
    """
    expected = golden_store.records
    if HAS_LIBRARIES:
        assert expected == dump(golden_root, "--decompress")
    assert [plain(line) for line in expected] == dump(golden_root)


def golden(tmp_path: Path, name: str) -> tuple[GoldenStore, Path]:
    """
    Returns a golden store by its name, extracted.
    """
    (store,) = (store for store in STORES if store.name == name)
    return store, store.extract(tmp_path)


def test_records_are_chosen_by_offset_topic_and_queue(tmp_path: Path) -> None:
    """
    The offsets need not be starts of records.
    """
    store, root = golden(tmp_path, "mixed-clean")
    lines = [plain(line) for line in store.records]
    offsets = [line["offset"] for line in lines]
    start, end = offsets[100] + 1, offsets[200]

    assert lines[101:200] == dump(root, "--from", str(start), "--to", str(end))
    assert lines[200:] == dump(root, "--from", str(end))
    assert lines[:101] == dump(root, "--to", str(start))
    assert [] == dump(root, "--from", "999999999")
    some = [line for line in lines if (line["topic"], line["queueId"]) == ("TopicA", 2)]
    assert some == dump(root, "--topic", "TopicA", "--queue", "2")
    chinese = [line for line in lines if line["topic"] == "订单-7"]
    assert chinese == dump(root, "--topic", "订单-7")
    assert [] == dump(root, "--topic", "none")


def test_a_body_is_text_or_base64(tmp_path: Path) -> None:
    """
    Text if it is UTF-8; an empty body is text.
    """
    bodies = ["ä\n".encode(), b"", b"\xff\0"]
    with CommitLog(tmp_path / "s") as log:
        log.append_batch([Message("t", body) for body in bodies])
    lines = dump(tmp_path / "s", "--bodies")

    assert ["ä\n", ""] == [line["body"] for line in lines[:2]]
    assert bodies[2] == base64.b64decode(lines[2]["bodyBase64"])
    assert "body" not in lines[2]
    assert not any("body" in line for line in dump(tmp_path / "s"))


def test_bodies_are_as_stored_without_decompress(tmp_path: Path) -> None:
    """
    Sizes and digests of both are separate keys.
    """
    import zlib  # noqa: PLC0415

    body = b"again and again " * 50
    with CommitLog(tmp_path / "s") as log:
        log.append(Message("t", zlib.compress(body), sys_flag=0x301))
    (stored,) = dump(tmp_path / "s", "--bodies")
    (opened,) = dump(tmp_path / "s", "--bodies", "--decompress")

    assert zlib.compress(body) == base64.b64decode(stored["bodyBase64"])
    assert body.decode() == opened["body"]
    assert len(body) == opened["uncompressedLength"]


def test_a_body_that_cannot_be_decompressed_is_named(tmp_path: Path) -> None:
    """
    The error has the offset of the record.
    """
    with CommitLog(tmp_path / "s") as log:
        log.append(Message("t", b"fine"))
        offset = log.append(Message("t", b"no zlib", sys_flag=0x301)).offset
    result = run("dump", tmp_path / "s", "--decompress")

    assert 3 == result.exit_code
    assert f"record at offset {offset}: body is not valid zlib" in result.stderr


@pytest.mark.parametrize("damage", [b"\x7f\xff\xff\xff\xda\xa3\x20\xa7", bytes(100)])
def test_after_a_broken_record_the_next_segment_follows(
    damage: bytes, tmp_path: Path
) -> None:
    """
    A line on stderr has the offset, and the exit code is 1.
    """
    root = make_store(tmp_path / "s")
    before = dump(root)
    broken = before[20]["offset"]
    overwrite(segment_file(root), broken, damage)
    result = run("dump", root)

    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert before[:20] + [x for x in before if x["offset"] >= 65536] == lines
    (line,) = result.stderr.splitlines()
    assert f"{root}: offset {broken}: " in line
    assert 1 == result.exit_code


def test_an_empty_store_has_nothing_to_dump(tmp_path: Path) -> None:
    """
    This is not an error.
    """
    CommitLog(tmp_path / "s").close()

    assert [] == dump(tmp_path / "s")
