"""
Parent and writer number the jobs alike.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.demo_library import make_library

from pystore.demo.corpus import read_corpus
from pystore.demo.workload import AppendJobs


@pytest.mark.parametrize("lines_max", [1, 7, 200, 4096])
def test_every_line_is_in_one_job_of_each_repetition(
    lines_max: int, tmp_path: Path
) -> None:
    """
    Long files are several jobs.
    """
    corpus = read_corpus(make_library(tmp_path, files=4, lines=50))
    jobs = AppendJobs(corpus, repeat=3, lines_max=lines_max)
    pieces = [jobs.piece(number) for number in range(jobs.count)]

    assert 3 * corpus.lines == sum(piece.end - piece.first for piece in pieces)
    assert lines_max >= max(piece.end - piece.first for piece in pieces)
    assert pieces[: len(pieces) // 3] == pieces[-(len(pieces) // 3) :]


def test_a_piece_holds_its_lines_of_the_file(tmp_path: Path) -> None:
    """
    Bodies and keys begin at the same line.
    """
    corpus = read_corpus(make_library(tmp_path, files=1, lines=50))
    piece = AppendJobs(corpus, lines_max=20).piece(1)

    offsets, data = piece.keys
    assert (20, 40) == (piece.first, piece.end)
    assert data[offsets[0] : offsets[1]].endswith(b":21")
    assert 21 == len(piece.bodies[0]) == len(offsets)
    assert 20 == piece.columns().count
