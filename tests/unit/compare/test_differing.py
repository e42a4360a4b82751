"""
Ranges that differ are found in one pass, merged and counted.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pystore.compare import differing
from pystore.compare.differing import DifferingRange, find_differing
from pystore.compare.log_bytes import LogBytes
from pystore.salvage.pieces import SourcePiece, find_pieces

SEGMENT = 4096


def write(root: Path, data: bytes, segment: int = SEGMENT) -> LogBytes:
    """
    A log of these bytes; a segment without a byte is missing.
    """
    folder = root / "commitlog"
    folder.mkdir(parents=True)
    for base in range(0, len(data), segment):
        if any(data[base : base + segment]):
            path = folder / f"{base:020d}"
            path.write_bytes(data[base : base + segment].ljust(segment, b"\0"))
    return LogBytes(find_pieces(root))


def test_random_differences_are_found_byte_for_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Whatever the sizes of segments and chunks.
    """
    monkeypatch.setattr(differing, "_NEAR", 8)
    monkeypatch.setattr(differing, "LISTED_MAX", 10**6)
    for seed in range(60):
        draw = random.Random(seed)
        monkeypatch.setattr(differing, "_CHUNK", draw.choice((512, 4096, 1 << 20)))
        data = draw.randbytes(4 * SEGMENT)
        other = bytearray(data)
        for _ in range(draw.randrange(20)):
            other[draw.randrange(len(other))] ^= 1 << draw.randrange(8)
        root = tmp_path / str(seed)
        sizes = draw.choice((SEGMENT, SEGMENT * 2)), draw.choice((SEGMENT, SEGMENT * 4))
        start, end = draw.randrange(SEGMENT), draw.randrange(SEGMENT, len(data))
        with (
            write(root / "a", data, sizes[0]) as ours,
            write(root / "b", bytes(other), sizes[1]) as theirs,
        ):
            found = find_differing(ours, theirs, start, end)
        places = [at for at in range(start, end) if data[at] != other[at]]
        expected: list[list[int]] = []
        for at in places:
            if expected and at + 1 - expected[-1][1] <= 9 and at - expected[-1][1] <= 8:
                expected[-1][1] = at + 1
            else:
                expected.append([at, at + 1])

        assert expected == [[one.start, one.end] for one in found.ranges], seed
        assert (len(expected), end - start) == (found.count, found.compared), seed
        assert sum(b - a for a, b in expected) == found.size, seed


def test_a_missing_segment_is_one_range(tmp_path: Path) -> None:
    """
    Of one log or of both.
    """
    full = b"x" * (4 * SEGMENT)
    gap = full[:SEGMENT] + bytes(SEGMENT * 2) + full[:SEGMENT]
    other = full[: SEGMENT * 2] + bytes(SEGMENT) + full[:SEGMENT]
    with write(tmp_path / "a", gap) as ours, write(tmp_path / "b", other) as theirs:
        found = find_differing(ours, theirs, 0, len(full))

    assert [
        DifferingRange(SEGMENT, 2 * SEGMENT, ("missing", "")),
        DifferingRange(2 * SEGMENT, 3 * SEGMENT, ("missing", "missing")),
    ] == found.ranges
    assert 2 * SEGMENT == found.compared


def test_the_first_ranges_are_listed_and_the_rest_is_counted(tmp_path: Path) -> None:
    """
    Memory does not grow with the damage.
    """
    other = bytearray(b"x" * 30 * SEGMENT)
    for at in range(0, len(other), SEGMENT):
        other[at] = 0
    with (
        write(tmp_path / "a", b"x" * 30 * SEGMENT) as ours,
        write(tmp_path / "b", bytes(other)) as theirs,
    ):
        found = find_differing(ours, theirs, 0, len(other))

    assert (20, 30, 30) == (len(found.ranges), found.count, found.size)


def test_a_page_that_cannot_be_read_hides_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The pages around it are compared.
    """
    data = b"x" * (8 * SEGMENT)
    read = LogBytes.read

    def fail(log: LogBytes, piece: SourcePiece, offset: int, size: int) -> bytes | None:
        if log is theirs and offset < 2 * SEGMENT + 1 <= offset + size:
            return None
        return read(log, piece, offset, size)

    monkeypatch.setattr(LogBytes, "read", fail)
    with (
        write(tmp_path / "a", data, 8 * SEGMENT) as ours,
        write(tmp_path / "b", data, 8 * SEGMENT) as theirs,
    ):
        found = find_differing(ours, theirs, 0, len(data))

    (one,) = found.ranges
    assert DifferingRange(2 * SEGMENT, 3 * SEGMENT, ("", "unreadable")) == one
    assert (SEGMENT, 7 * SEGMENT) == (found.unreadable, found.compared)
