"""
Index files are read and verified as RocketMQ wrote them.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from lib.oracle.golden_data import GoldenStore

from pystore.errors import FormatError, InvalidError
from pystore.message.properties import tags_code
from pystore.rocketmq.checkpoint_file import parse_checkpoint
from pystore.rocketmq.index_file import IndexFile, IndexFiles, index_hash

# The vector of the format page: 10 slots, three puts.
HEADER = "0000018bcfe5687b0000018bcfe5873f000000000000000000000000000000f6"
COUNTS = "0000000200000004"
ENTRIES = (
    "717125c900000000000000000000000000000000",
    "717125c8000000000000007b0000000500000000",
    "717125c900000000000000f60000000700000001",
)
SLOTS = {8: 2, 9: 3}
BEGIN_MS = 1700000000123


def _vector(root: Path, name: str = "20231114221320123") -> Path:
    path = root / "index" / name
    path.parent.mkdir(exist_ok=True)
    slots = b"".join(struct.pack(">i", SLOTS.get(n, 0)) for n in range(10))
    entries = bytes(20) + bytes.fromhex("".join(ENTRIES)) + bytes(20)
    path.write_bytes(bytes.fromhex(HEADER + COUNTS) + slots + entries)
    return path


def _change(path: Path, at: int, data: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[at : at + len(data)] = data
    path.write_bytes(whole)


def _golden(store: GoldenStore, root: Path) -> IndexFiles:
    config = store.expected["config"]
    return IndexFiles(root, int(config["maxHashSlotNum"]), int(config["maxIndexNum"]))


def test_golden_queries_answer_as_java_did(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    The same offsets in the same order. Where Java was halted, it first removed the
    files that its checkpoint does not cover, and indexed again from the last
    record of the others on: what lies below answers as before.
    """
    index = _golden(golden_store, golden_root)
    until, queries = 2**63, golden_store.expected["indexQueries"]
    if golden_store.expected["abortFilePresent"]:
        checkpoint = (golden_root / "checkpoint").read_bytes()
        index_ms = parse_checkpoint(checkpoint).index_ms
        index.files = [f for f in index.files if f.header.end_ms <= index_ms]
        until = index.files[-1].header.end_offset

    found = [index.query(q["topic"], q["key"], max_count=1000) for q in queries]

    assert [[o for o in q["phyOffsets"] if o < until] for q in queries] == [
        [offset for offset in offsets if offset < until] for offsets in found
    ]


def test_golden_index_files_are_whole(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    Header, chains and slots agree with the entries.
    """
    index = _golden(golden_store, golden_root)

    assert len(index.files) > 0
    assert [] == index.verify()


def test_golden_entries_are_the_hashes_of_their_records_keys(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    Every entry has the hash of a key of its record.
    """
    hashes = {
        (record["offset"], index_hash(record["topic"], key))
        for record in golden_store.records
        for key in [record["uniqKey"], *(record["keys"] or "").split(" ")]
        if key
    }
    first = golden_store.records[0]["offset"]
    index = _golden(golden_store, golden_root)

    unexplained = [
        (offset, code)
        for file in index.files
        for code, offset, _, _ in file.entries[1 : file.header.next_number].tolist()
        if offset >= first and (offset, code) not in hashes
    ]

    assert [] == unexplained


def test_the_vector_of_the_format_page_is_read(tmp_path: Path) -> None:
    """
    Newest first, by key, by time to the second.
    """
    file = IndexFile.open(_vector(tmp_path), 10, 5)
    index = IndexFiles(tmp_path, 10, 5)

    assert (BEGIN_MS, BEGIN_MS + 7876, 0, 246, 2, 4) == file.header
    assert [] == file.verify()
    assert [246, 0] == index.query("TopicA", "k1")
    assert [123] == index.query("TopicA", "k2")
    assert [] == index.query("TopicA", "k3")
    assert [246] == index.query("TopicA", "k1", max_count=1)
    assert [] == index.query("TopicA", "k1", max_count=0)
    assert [246] == index.query("TopicA", "k1", begin_ms=BEGIN_MS + 6000)
    assert [0] == index.query("TopicA", "k1", end_ms=BEGIN_MS + 6000)
    assert [] == index.query("TopicA", "k1", begin_ms=BEGIN_MS + 8000)


def test_a_query_reads_newer_files_first_and_skips_old_ones(tmp_path: Path) -> None:
    """
    RocketMQ stops at the first file that begins before the begin time.
    """
    _vector(tmp_path)
    newer = _vector(tmp_path, "20231114221420123")
    _change(newer, 0, struct.pack(">qq", BEGIN_MS + 60_000, BEGIN_MS + 68_000))
    _change(newer, 40 + 40 + 20 + 4, struct.pack(">q", 1000))
    index = IndexFiles(tmp_path, 10, 5)

    assert [246, 1000, 246, 0] == index.query("TopicA", "k1")
    assert [246, 1000] == index.query("TopicA", "k1", begin_ms=BEGIN_MS + 60_000)


def test_a_hash_is_never_negative() -> None:
    """
    Java's smallest integer has no absolute value, and becomes 0.
    """
    assert 0x717125C9 == index_hash("TopicA", "k1")
    # The one hash without an absolute value in 32 bits.
    assert -(2**31) == tags_code("T#kzA12baC")
    assert 0 == index_hash("T", "kzA12baC")
    assert all(index_hash("T", f"key{n}") >= 0 for n in range(1000))


ENTRY_3 = 40 + 40 + 60


@pytest.mark.parametrize(
    ("at", "data", "problem"),
    [
        (36, struct.pack(">i", 6), "the header's next entry is 6 of 5"),
        (36, struct.pack(">i", 0), "the header's next entry is 0 of 5"),
        (32, struct.pack(">i", 3), "the header counts 3 used slots, there are 2"),
        (16, struct.pack(">q", 9), "the header spans offsets 9 to 246"),
        (24, struct.pack(">q", 9), "the header spans offsets 0 to 9, the entries 0 to"),
        (8, struct.pack(">q", BEGIN_MS), "entry 2 is not within the header's times"),
        (ENTRY_3 + 12, b"\xff", "entry 3 is not within the header's times"),
        (ENTRY_3, b"\xf1", "entry 3 has a negative hash"),
        (ENTRY_3 + 3, b"\xc8", "the chain breaks at entry 3"),
        (ENTRY_3 + 19, b"\x02", "the chain breaks at entry 3"),
        (40 + 36, struct.pack(">i", 1), "slot 9 does not name its newest entry"),
        (40 + 4, struct.pack(">i", 3), "slot 1 does not name its newest entry"),
    ],
)
def test_damage_is_named(at: int, data: bytes, problem: str, tmp_path: Path) -> None:
    """
    Each part of the file is checked against the others.
    """
    path = _vector(tmp_path)
    _change(path, at, data)

    found = IndexFile.open(path, 10, 5).verify()

    assert any(line.startswith(f"{path}: {problem}") for line in found), found


def test_a_chain_that_leads_in_a_circle_ends(tmp_path: Path) -> None:
    """
    Damage must not hang a query.
    """
    path = _vector(tmp_path)
    _change(path, ENTRY_3 + 16, struct.pack(">i", 3))
    assert [246] == IndexFiles(tmp_path, 10, 5).query("TopicA", "k1")

    _change(path, ENTRY_3 + 16, struct.pack(">i", 1))
    _change(path, ENTRY_3 - 40 + 16, struct.pack(">i", 3))
    assert [246, 0] == IndexFiles(tmp_path, 10, 5).query("TopicA", "k1")


def test_random_damage_neither_hangs_nor_raises(tmp_path: Path) -> None:
    """
    Any bytes of the right length are an index file, good or bad.
    """
    seed = int.from_bytes(np.random.default_rng().bytes(4), "big")
    print("seed", seed)
    random = np.random.default_rng(seed)
    path = _vector(tmp_path)
    for _ in range(200):
        _change(path, int(random.integers(0, 177)), random.bytes(4))
        index = IndexFiles(tmp_path, 10, 5)
        index.verify()
        for key in ("k1", "k2", "k3"):
            index.query("TopicA", key)


def test_wrong_sizes_and_names_are_refused(tmp_path: Path) -> None:
    """
    The error names the argument to give, or the file to move.
    """
    path = _vector(tmp_path)
    with pytest.raises(FormatError, match="give the store's maxHashSlotNum"):
        IndexFile.open(path, 11, 5)
    with pytest.raises(InvalidError):
        IndexFile.open(path, 0, 5)

    (tmp_path / "index" / "notes").touch()
    with pytest.raises(FormatError, match="its name is no time") as raised:
        IndexFiles(tmp_path, 10, 5)
    assert str(tmp_path / "index" / "notes") == raised.value.path


def test_a_store_without_an_index_finds_nothing(tmp_path: Path) -> None:
    """
    The index may be switched off.
    """
    assert [] == IndexFiles(tmp_path).query("T", "k")
