"""
Every file of a log is read alone, whatever is missing around it.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from lib.command_line import SEGMENT, make_store, segment_file

from pystore.errors import NotAStoreError
from pystore.salvage.pieces import PiecedLog, SourcePiece, find_pieces, open_piece


def test_a_missing_and_a_short_segment_are_gaps(tmp_path: Path) -> None:
    """
    The other segments say how large each of them was.
    """
    root = make_store(tmp_path / "s")
    bases = [piece.start for piece in find_pieces(root).pieces]
    segment_file(root, bases[1]).unlink()
    short = segment_file(root, bases[-1])
    short.write_bytes(short.read_bytes()[:1000])
    found = find_pieces(root)

    assert SEGMENT == found.segment_size
    assert [*bases[:1], *bases[2:]] == [piece.start for piece in found.pieces]
    expected = [(bases[1], bases[2]), (bases[-1] + 1000, bases[-1] + SEGMENT)]
    assert expected == list(found.gaps())


def test_the_largest_file_cut_short_leaves_the_distances_of_the_others(
    tmp_path: Path,
) -> None:
    """
    No file has the size of a segment any more.
    """
    root = make_store(tmp_path / "s", records=3000)
    for piece in find_pieces(root).pieces:
        piece.path.write_bytes(piece.path.read_bytes()[:5000])

    assert SEGMENT == find_pieces(root).segment_size


def test_a_directory_without_pieces_is_refused(tmp_path: Path) -> None:
    """
    The line says what was looked for.
    """
    (tmp_path / "note").write_text("no piece")

    with pytest.raises(NotAStoreError, match="20 digits"):
        find_pieces(tmp_path)
    with pytest.raises(NotAStoreError, match="check the path"):
        find_pieces(tmp_path / "missing")


def test_every_place_within_a_segment_of_any_size_has_a_frame() -> None:
    """
    The segment size of saved bytes is not known; one that they fit in is found.
    """
    draw = random.Random(7)
    for _ in range(500):
        size = draw.randrange(200, 2**31 - 1)
        base = size * draw.choice((0, 1, 2, 3, 1000, draw.randrange(1 << 20)))
        start = base + draw.choice((0, draw.randrange(size)))
        piece = SourcePiece(
            Path("x"), start, draw.randrange(1, base + size - start + 1)
        )
        log = PiecedLog(Path(), (piece,), None, is_store=False)
        frame = log.frame(piece)

        assert frame.base <= piece.start, (size, piece)
        assert piece.end <= frame.base + frame.size, (size, piece)
        assert frame.base % frame.size == 0, (size, piece)
        assert 128 <= frame.size < 2**31, (size, piece)


def test_a_part_of_a_segment_is_read_at_its_place(tmp_path: Path) -> None:
    """
    The bytes around it are zero, and the file is not changed.
    """
    path = tmp_path / f"{70000:020d}"
    path.write_bytes(b"x" * 3000)
    found = find_pieces(tmp_path)
    (piece,) = found.pieces
    with open_piece(piece, found.frame(piece), tmp_path) as (log, unread):
        before = bytes(log.acquire(69999, 2))
        last = bytes(log.acquire(72999, 2))

    assert (b"\0x", b"x", []) == (before, last, unread)
    assert [path] == list(tmp_path.iterdir())
    assert b"x" * 3000 == path.read_bytes()
