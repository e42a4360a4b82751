"""
Who appends what: the corpus in pieces, repeated.

A job is a number. Parent and writer count alike, so a number says which lines of
which file in which repetition.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.demo.corpus import Corpus, TextFile
from pystore.message.columns import Columns, gather_columns
from pystore.message.lines import Strings

__all__ = ["LINES_MAX", "AppendJobs", "Piece"]

LINES_MAX = 4096
"""Lines of one piece: an append takes long enough to be hit by a kill."""


@dataclass(frozen=True, slots=True)
class Piece:
    """
    Some lines of one file: what one append takes.

    Attributes:
        file: the file.
        first: the index of its first line, from 0.
        end: of its last line, exclusive.
    """

    file: TextFile
    first: int
    end: int

    @property
    def bodies(self) -> Strings:
        """
        The lines; the offsets are those of the whole file's strings.
        """
        offsets, data = self.file.bodies
        return offsets[self.first : self.end + 1], data

    @property
    def keys(self) -> Strings:
        """
        Their keys, in the same way.
        """
        offsets, data = self.file.keys
        return offsets[self.first : self.end + 1], data

    def columns(self) -> Columns:
        """
        Returns the records that the lines become.
        """
        file = self.file
        return gather_columns(
            file.topic, self.bodies, keys=self.keys, queue_id=file.queue_id
        )


class AppendJobs:
    """
    The pieces of the corpus, again and again.

    Args:
        corpus: the files.
        repeat: how often.
        lines_max: of one piece.

    Attributes:
        count: of all jobs: their numbers are those below it.
    """

    def __init__(
        self, corpus: Corpus, repeat: int = 1, lines_max: int = LINES_MAX
    ) -> None:
        self._pieces = [
            Piece(file, first, min(first + lines_max, file.lines))
            for file in corpus.files
            for first in range(0, file.lines, lines_max)
        ]
        self.count = repeat * len(self._pieces)

    def piece(self, number: int) -> Piece:
        """
        Returns what a job appends.
        """
        return self._pieces[number % len(self._pieces)]
