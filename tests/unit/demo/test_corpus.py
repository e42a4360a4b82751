"""
The demo appends every text file, line by line.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from lib.demo_library import make_library

from pystore.demo.corpus import read_corpus
from pystore.message.lines import Strings


def strings(column: Strings) -> list[bytes]:
    """
    Splits a column into its values.
    """
    offsets, data = column
    return [data[start:end] for start, end in pairwise(offsets)]


def test_every_text_file_is_read_and_nothing_else(tmp_path: Path) -> None:
    """
    No binary file, no empty file, no installed package.
    """
    corpus = read_corpus(make_library(tmp_path))

    names = [file.name for file in corpus.files]
    assert 12 == len(names)
    assert sorted(names) == names
    assert {"folder0", "folder1"} == {name.partition("/")[0] for name in names}


def test_bodies_are_the_lines_and_keys_name_them(tmp_path: Path) -> None:
    """
    Blank lines are included, newlines are not.
    """
    root = make_library(tmp_path)
    for file in read_corpus(root).files:
        lines = (root / file.name).read_bytes().splitlines()
        assert lines == strings(file.bodies)
        assert [f"{file.name}:{n + 1}".encode() for n in range(len(lines))] == strings(
            file.keys
        )


def test_the_suffix_makes_the_topic_and_queues_take_turns(tmp_path: Path) -> None:
    """
    A file without a suffix, or with an odd one, has a topic, too.
    """
    root = make_library(tmp_path)
    (root / "odd.s~x").write_text("x")
    corpus = read_corpus(root, queues=3)

    assert {"lines-py", "lines-txt", "lines-other"} == {f.topic for f in corpus.files}
    assert 3 == corpus.topics
    assert {0, 1, 2} == {file.queue_id for file in corpus.files}


def test_the_library_of_the_running_python_is_found() -> None:
    """
    The input exists wherever Python runs, and is not small.
    """
    corpus = read_corpus()

    assert 100 < len(corpus.files)
    assert 100_000 < corpus.lines
    assert 1_000_000 < corpus.size_bytes
