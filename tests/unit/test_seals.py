"""
Seals are equal on replicas, detect every changed bit, and name the bad blocks.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from pystore.epochs.table import EpochRange, EpochTable
from pystore.errors import FormatError, InvalidError, StorageError
from pystore.seals import (
    BLOCK_BYTES,
    NO_CHAIN,
    Buffer,
    Seal,
    list_seals,
    make_seal,
    parse_seal,
    read_seal,
    seal_name,
    verify_seal,
    write_seal,
)

SEGMENT = random.Random(11).randbytes(2 * BLOCK_BYTES + 1000)
TABLE = EpochTable.of([(1, 0), (3, 1000), (5, 5000), (9, 10**9)])


def sealed(*buffers: Buffer, start: int = 0, chain: bytes = NO_CHAIN) -> Seal:
    """A seal of these bytes."""
    return make_seal(
        buffers or [SEGMENT],
        group="broker-a",
        start_offset=start,
        record_count=17,
        first_store_ms=1_700_000_000_000,
        last_store_ms=1_700_000_000_999,
        epochs=TABLE,
        previous_chain=chain,
    )


def test_a_seal_describes_its_segment() -> None:
    """Length, blocks, digests and whose bytes they are."""
    seal = sealed()
    assert ("broker-a", 0, len(SEGMENT), 17) == (
        seal.group,
        seal.start_offset,
        seal.length_bytes,
        seal.record_count,
    )
    pieces = [SEGMENT[at : at + BLOCK_BYTES] for at in range(0, len(SEGMENT), 4 << 20)]
    assert tuple(map(xxhash.xxh3_64_intdigest, pieces)) == seal.block_digests
    assert xxhash.xxh3_128_digest(SEGMENT) == seal.digest
    assert xxhash.xxh3_128_digest(NO_CHAIN + seal.digest) == seal.chain
    assert (
        EpochRange(1, 0, 1000),
        EpochRange(3, 1000, 5000),
        EpochRange(5, 5000, len(SEGMENT)),
    ) == seal.epochs
    assert len(SEGMENT) == seal.end_offset
    assert (2 * BLOCK_BYTES, len(SEGMENT)) == seal.block_range(2)


def test_the_epochs_are_those_inside_the_segment() -> None:
    """An epoch that began before counts from the segment's start."""
    assert (EpochRange(3, 2000, 2010),) == sealed(b"x" * 10, start=2000).epochs
    assert (EpochRange(1, 990, 1000), EpochRange(3, 1000, 1001)) == sealed(
        b"x" * 11, start=990
    ).epochs


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, len(SEGMENT)), max_size=6), st.booleans())
def test_the_same_bytes_give_the_same_seal(places: list[int], as_views: bool) -> None:
    """For any split of the buffers, replicas write the same file."""
    cuts = [0, *sorted(places), len(SEGMENT)]
    view = memoryview(SEGMENT)
    views = [view[a:b] for a, b in pairwise(cuts)]
    buffers: list[Buffer] = list(views) if as_views else [bytes(it) for it in views]
    seal = make_seal(
        iter(buffers),
        group="broker-a",
        start_offset=0,
        record_count=17,
        first_store_ms=1_700_000_000_000,
        last_store_ms=1_700_000_000_999,
        epochs=TABLE,
    )
    assert sealed().encode() == seal.encode()
    assert [] == verify_seal(seal, buffers)


def test_a_view_of_wider_items_is_read_as_bytes() -> None:
    """A mapped segment may come as an array of another type."""
    wide = memoryview(SEGMENT[: 4 << 20]).cast("I")
    assert sealed(SEGMENT[: 4 << 20]) == sealed(wide)


def test_the_chain_covers_the_order_of_segments() -> None:
    """Each value depends on all before it; a swapped pair does not fit."""
    first = sealed(b"one", start=0)
    second = sealed(b"two", start=3, chain=first.chain)
    assert first.follows(NO_CHAIN)
    assert second.follows(first.chain)
    assert not second.follows(NO_CHAIN)
    assert not first.follows(second.chain)


@pytest.mark.parametrize(
    ("segment", "bad"),
    [
        (SEGMENT, []),
        (bytes([SEGMENT[0] ^ 128]) + SEGMENT[1:], [0]),
        (SEGMENT[:-1] + bytes([SEGMENT[-1] ^ 1]), [2]),
        (
            SEGMENT[:BLOCK_BYTES]
            + bytes([SEGMENT[BLOCK_BYTES] ^ 2])
            + SEGMENT[BLOCK_BYTES + 1 :],
            [1],
        ),
        (SEGMENT[:-1], [2]),
        (SEGMENT[:BLOCK_BYTES], [1, 2]),
        (b"", [0, 1, 2]),
        (SEGMENT + b"\0", [2]),
        (SEGMENT + bytes(BLOCK_BYTES), [2, 3]),
    ],
)
def test_verify_names_exactly_the_bad_blocks(segment: bytes, bad: list[int]) -> None:
    """Changed, missing and surplus bytes, by the index of their block."""
    assert bad == verify_seal(sealed(), [segment])


def test_a_wrong_digest_of_the_segment_makes_all_blocks_suspect() -> None:
    """The blocks agree, the segment does not: all blocks are suspect."""
    seal = replace(sealed(), digest=bytes(16))
    assert [0, 1, 2] == verify_seal(seal, [SEGMENT])


@pytest.mark.parametrize(
    ("start", "size", "group"),
    [(0, 1, "g"), (2**50, 4 << 20, "集群"), (7, 9, "b" * 65535)],
)
def test_a_seal_survives_its_file(start: int, size: int, group: str) -> None:
    """An encoded seal can be parsed, and encodes to the same bytes again."""
    seal = replace(sealed(b"x" * size, start=start), group=group)
    assert seal == parse_seal(seal.encode())
    assert seal.encode() == parse_seal(seal.encode()).encode()


def test_a_flip_of_any_bit_is_detected() -> None:
    """The digest of the seal itself is checked first."""
    content = sealed(b"bytes").encode()
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FormatError, match=r"digest at its end|beginning of a seal"):
            parse_seal(bytes(damaged))


def test_every_half_written_seal_is_detected() -> None:
    """Cut at any byte, or followed by more bytes."""
    content = sealed(b"bytes").encode()
    for wrong in (*(content[:size] for size in range(len(content))), content + b"\0"):
        with pytest.raises(
            FormatError, match=r"^/s: .*take it from a replica"
        ) as caught:
            parse_seal(wrong, "/s")
        assert "\n" not in str(caught.value)


def test_lengths_that_contradict_each_other_are_refused() -> None:
    """A matching digest does not help: the writer had a defect."""
    content = sealed(b"bytes").encode()[:-16] + b"\0"
    with pytest.raises(FormatError, match="its lengths contradict each other"):
        parse_seal(content + xxhash.xxh3_128_digest(content))
    content = sealed(b"bytes").encode()[:-16].replace(b"broker-a", b"broker-\xff")
    with pytest.raises(FormatError, match="its group is not UTF-8"):
        parse_seal(content + xxhash.xxh3_128_digest(content))


@given(st.binary(max_size=300))
def test_garbage_never_raises_anything_else(content: bytes) -> None:
    """Any other bytes are a FormatError of one line."""
    for one in (content, b"PSSEAL\x00\x01" + content):
        with pytest.raises(FormatError, match="take it from a replica"):
            parse_seal(one)
        text = ""
        try:
            parse_seal(one + xxhash.xxh3_128_digest(one))
        except FormatError as error:
            text = str(error)
        assert "\n" not in text


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """``meta/seals`` and ``meta/tmp``."""
    for name in ("seals", "tmp"):
        (tmp_path / name).mkdir()
    return tmp_path / "seals", tmp_path / "tmp"


def test_seals_are_written_read_and_listed(places: tuple[Path, Path]) -> None:
    """The list is ordered by base offset; a segment without a seal is not in it."""
    directory, temporary = places
    assert [] == list_seals(directory)
    for start in (2**30, 0):
        seal = sealed(b"x", start=start)
        path = write_seal(directory, seal, temporary)
        assert directory / f"{start:020}.seal" == path
        assert seal.encode() == path.read_bytes()
        assert seal == read_seal(directory, start)
    assert [0, 2**30] == list_seals(directory)
    assert read_seal(directory, 5) is None
    assert [] == os.listdir(temporary)


def test_a_seal_of_another_segment_is_refused(places: tuple[Path, Path]) -> None:
    """A copied file does not seal the segment of its new name."""
    directory, temporary = places
    write_seal(directory, sealed(b"x", start=7), temporary)
    (directory / seal_name(7)).rename(directory / seal_name(8))
    with pytest.raises(FormatError, match="it seals the segment at 7") as caught:
        read_seal(directory, 8)
    print(caught.value)
    assert 8 == caught.value.offset


def test_a_bad_seal_file_is_named(places: tuple[Path, Path]) -> None:
    """An empty or foreign file, and a directory that is not there."""
    directory, _ = places
    (directory / seal_name(0)).write_bytes(b"")
    with pytest.raises(
        FormatError, match=f"^{directory}/0+.seal: b'' is not the beginning"
    ):
        read_seal(directory, 0)
    (directory / "notes.txt").write_bytes(b"")
    with pytest.raises(FormatError, match="no seal has this name: move it away"):
        list_seals(directory)
    with pytest.raises(StorageError, match=r"cannot list .*: No such file"):
        list_seals(directory / "gone")
    (directory / seal_name(9)).mkdir()
    with pytest.raises(StorageError, match=r"cannot read .*: Is a directory"):
        read_seal(directory, 9)


def test_a_segment_that_cannot_be_sealed_is_refused() -> None:
    """No bytes, no chain, no group."""
    with pytest.raises(InvalidError, match="the segment at 0 has no bytes to seal"):
        sealed(b"")
    with pytest.raises(InvalidError, match="a chain value has 16 bytes"):
        sealed(b"x", chain=b"short")
    with pytest.raises(InvalidError, match="a group name has 1 to 65535 bytes"):
        make_seal(
            [b"x"],
            group="",
            start_offset=0,
            record_count=0,
            first_store_ms=0,
            last_store_ms=0,
            epochs=TABLE,
        )
