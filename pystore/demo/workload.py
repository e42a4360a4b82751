"""
The jobs of the demo: pieces of the corpus, appended several times.

A job is a number. Parent and writer number the pieces alike, so the number identifies
the file, its lines and the repetition.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.demo.corpus import Corpus, TextFile
from pystore.message.columns import Columns, gather_columns
from pystore.message.lines import Strings

__all__ = ["LINES_MAX", "AppendJobs", "Piece"]

LINES_MAX = 4096
"""Lines of one piece: enough that a kill often hits an append."""


@dataclass(frozen=True, slots=True)
class Piece:
    """
    Some lines of one file, for one append.

    Attributes:
        file: the file.
        first: index of the first line, from 0.
        end: index after the last line.
    """

    file: TextFile
    first: int
    end: int

    @property
    def bodies(self) -> Strings:
        """
        The lines; their offsets are relative to the whole file's text.
        """
        offsets, data = self.file.bodies
        return offsets[self.first : self.end + 1], data

    @property
    def keys(self) -> Strings:
        """
        The keys of the lines, in the same form.
        """
        offsets, data = self.file.keys
        return offsets[self.first : self.end + 1], data

    def columns(self) -> Columns:
        """
        Returns the lines as columns of records.
        """
        file = self.file
        return gather_columns(
            file.topic, self.bodies, keys=self.keys, queue_id=file.queue_id
        )


class AppendJobs:
    """
    The pieces of the corpus, repeated.

    Args:
        corpus: the files.
        repeat: how many times the corpus is appended.
        lines_max: most lines of one piece.

    Attributes:
        count: number of jobs; jobs are numbered from 0.
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
        Returns the piece that a job appends.
        """
        return self._pieces[number % len(self._pieces)]
