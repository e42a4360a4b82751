"""
Every record is dumped as Java shows it.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from lib.command_line import SEGMENT, make_store, overwrite, run, segment_file
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


def short(line: dict[str, Any]) -> dict[str, Any]:
    """
    Returns a golden line as it is without decompression and digests.
    """
    left_out = ("Sha256", "RawHex")
    return {k: v for k, v in plain(line).items() if not k.endswith(left_out)}


def test_every_golden_store_is_dumped_field_for_field(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    All records, all keys, in Java's order.
    """
    expected = golden_store.records
    if HAS_LIBRARIES:
        assert expected == dump(golden_root, "--decompress", "--digests")
    assert [plain(line) for line in expected] == dump(golden_root, "--digests")
    assert [short(line) for line in expected] == dump(golden_root)


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
    lines = [short(line) for line in store.records]
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


def test_a_body_that_cannot_be_decompressed_is_printed_as_stored(
    tmp_path: Path,
) -> None:
    """
    Its line has the reason, the lines around it are printed, and the exit code is 1.
    """
    with CommitLog(tmp_path / "s") as log:
        log.append(Message("t", b"fine"))
        log.append(Message("t", b"no zlib", sys_flag=0x301))
        log.append(Message("t", b"fine, too"))
    result = run("dump", tmp_path / "s", "--decompress", "--bodies")
    lines = [json.loads(line) for line in result.stdout.splitlines()]

    assert 1 == result.exit_code
    assert ["fine", "no zlib", "fine, too"] == [line["body"] for line in lines]
    assert [False, True, False] == ["bodyError" in line for line in lines]
    assert "not valid zlib" in lines[1]["bodyError"]


@pytest.mark.parametrize(("sys_flag", "name"), [(0x101, "lz4"), (0x201, "zstandard")])
def test_without_the_library_of_a_body_the_other_records_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sys_flag: int, name: str
) -> None:
    """
    The line of the record says what to install.
    """
    with CommitLog(tmp_path / "s") as log:
        log.append_batch([Message("t", b"fine")] * 100)
        log.append(Message("t", b"compressed", sys_flag=sys_flag))
        log.append(Message("t", b"fine, too"))
    for module in (name, f"{name}.frame"):
        monkeypatch.setitem(sys.modules, module, None)
    result = run("dump", tmp_path / "s", "--decompress", "--bodies")
    lines = [json.loads(line) for line in result.stdout.splitlines()]

    assert 1 == result.exit_code
    assert 102 == len(lines)
    assert [100] == [at for at, line in enumerate(lines) if "bodyError" in line]
    assert f"{name} is not installed: pip install" in lines[100]["bodyError"]


def test_a_record_with_a_changed_body_is_damage(tmp_path: Path) -> None:
    """
    As for verify: what dump prints is what was written.
    """
    root = make_store(tmp_path / "s")
    before = dump(root)
    offset = before[20]["offset"]
    data = segment_file(root).read_bytes()
    overwrite(segment_file(root), data.index(b"body 20"), b"BODY")
    result = run("dump", root)

    assert before[:20] + before[21:] == [
        json.loads(line) for line in result.stdout.splitlines()
    ]
    assert f"{root}: offset {offset}: body CRC" in result.stderr
    assert 1 == result.exit_code


@pytest.mark.parametrize("damage", [b"\x7f\xff\xff\xff\xda\xa3\x20\xa7", bytes(100)])
def test_after_a_broken_record_the_next_one_follows(
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
    assert before[:20] + before[21:] == lines
    (line,) = result.stderr.splitlines()
    assert f"{root}: offset {broken}: " in line
    assert 1 == result.exit_code


def test_behind_a_missing_segment_the_next_one_follows(tmp_path: Path) -> None:
    """
    A line on stderr has the range and the file, and the exit code is 1.
    """
    root = make_store(tmp_path / "s")
    before = dump(root)
    path = segment_file(root, SEGMENT)
    path.unlink()
    result = run("dump", root)

    lines = [json.loads(line) for line in result.stdout.splitlines()]
    inside = range(SEGMENT, 2 * SEGMENT)
    assert [one for one in before if one["offset"] not in inside] == lines
    assert (
        f"pystore: {root}: offset {SEGMENT}: {path}: the segment is missing: restore "
        "it from a replica or a backup and open the store again; the other segments "
        f"can be read; skipped to {2 * SEGMENT}: run `pystore verify`\n"
    ) == result.stderr
    assert 1 == result.exit_code


def test_damage_outside_the_range_is_not_reported(tmp_path: Path) -> None:
    """
    A range that ends before a missing segment is whole.
    """
    root = make_store(tmp_path / "s")
    before = dump(root)
    segment_file(root, SEGMENT).unlink()
    inside = [one for one in before if one["offset"] < SEGMENT]

    assert inside == dump(root, "--to", str(SEGMENT))
    assert before[-5:] == dump(root, "--from", str(before[-5]["offset"]))


def test_an_empty_store_has_nothing_to_dump(tmp_path: Path) -> None:
    """
    This is not an error.
    """
    CommitLog(tmp_path / "s").close()

    assert [] == dump(tmp_path / "s")
