"""
``pystore dump``: prints records as JSON, one per line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from pystore.bindings.ffi import Check
from pystore.cli.lib.exit_codes import BAD, DONE, UNFINISHED
from pystore.cli.lib.group import store_argument
from pystore.damage.segment_walk import CHECKS
from pystore.errors import CorruptError, InvalidError
from pystore.message.record_lines import RecordLines
from pystore.store.commit_log import CommitLog

__all__ = ["dump"]

_ROWS = 512
"""Records whose bytes are read together."""


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """
    Selects the records to print.

    Attributes:
        start, end: the range of offsets at which records begin.
        topic: the topic of the records; ``None``: all topics.
        queue_id: the queue of the records; ``None``: all queues.
    """

    start: int
    end: int
    topic: str | None
    queue_id: int | None

    def select(
        self, rows: NDArray[Any], topic_of: Callable[[int], str]
    ) -> NDArray[Any]:
        """
        Returns the rows that the filter selects.
        """
        offsets = rows["offset"]
        keep = (offsets >= self.start) & (offsets < self.end)
        if self.queue_id is not None:
            keep &= rows["queue_id"] == self.queue_id
        if self.topic is not None:
            ids = np.unique(rows["topic_id"]).tolist()
            named = [number for number in ids if topic_of(number) == self.topic]
            keep &= np.isin(rows["topic_id"], named)
        return rows[keep]


_EXAMPLE = """\b
Example: the records of topic orders from offset 1048576 on
  pystore dump /data/store --from 1048576 --topic orders --bodies
"""


@click.command(short_help="Print records as JSON.", epilog=_EXAMPLE)
@store_argument
@click.option(
    "--from",
    "start",
    type=click.IntRange(0),
    metavar="OFFSET",
    help="Only records that begin at OFFSET or after it.",
)
@click.option(
    "--to",
    "end",
    type=click.IntRange(0),
    metavar="OFFSET",
    help="Only records that begin below OFFSET.",
)
@click.option("--topic", metavar="TOPIC", help="Only records of TOPIC.")
@click.option(
    "--queue", "queue_id", type=int, metavar="N", help="Only records of queue N."
)
@click.option(
    "--bodies",
    is_flag=True,
    help="Add the body as stored: as 'body' if it is UTF-8, else as 'bodyBase64'.",
)
@click.option(
    "--decompress",
    is_flag=True,
    help="Give the size of compressed bodies as decompressed; with --bodies, add the "
    "decompressed bodies. One that cannot be opened gets a 'bodyError'.",
)
@click.option(
    "--digests",
    is_flag=True,
    help="Add the SHA-256 of record and body, and the property string in hex.",
)
@click.option(
    "--json", "_as_json", is_flag=True, help="No effect: the output is always JSON."
)
def dump(
    *,
    store: Path,
    start: int | None,
    end: int | None,
    topic: str | None,
    queue_id: int | None,
    bodies: bool,
    decompress: bool,
    digests: bool,
    _as_json: bool,
) -> int:
    """
    Print the records of STORE in the order of the log, one JSON object per line.

    The keys are RocketMQ's names. Each record is checked as by `pystore verify`. If one
    is broken, or a segment is missing, short or unreadable, a line on stderr gives the
    offset, the output continues with the next whole record, and the exit code is 1. It
    is 3 if nothing is broken, and a segment could not be opened: it may be whole.
    """
    with CommitLog(store, mode="r") as log:
        wanted = RecordFilter(
            start=max(start or 0, log.min_offset),
            end=log.end_offset if end is None else min(end, log.end_offset),
            topic=topic,
            queue_id=queue_id,
        )
        reader = _RecordReader(log)
        lines = RecordLines(
            bodies=bodies,
            decompress=decompress,
            digests=digests,
            on_bad_body=reader.note_bad_body,
        )
        output = sys.stdout.buffer
        for rows in reader.rows(wanted):
            start, last = int(rows["offset"][0]), rows[-1]
            size = int(last["offset"]) + int(last["size"]) - start
            view = log.reader.acquire(start, size)
            for chunk in lines.chunks(rows, view, start):
                output.write(chunk)
        if reader.is_broken:
            return BAD
        return UNFINISHED if reader.is_unread else DONE


class _RecordReader:
    """
    Reads records from a log segment by segment.

    Attributes:
        is_broken: whether a record could not be read.
        is_unread: whether the system did not open a segment.
    """

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._size = log.ends.segment_size
        self._unread = [one for one in log.ill if one.errno is not None]
        self.is_broken = self.is_unread = False

    def rows(self, wanted: RecordFilter) -> Iterator[NDArray[Any]]:
        """
        Yields the rows that the filter selects, in the order of the log; those of one
        array are in one segment.
        """
        if wanted.start >= wanted.end:
            return
        offset = self._record_start(wanted.start)
        while offset < wanted.end:
            segment_end = offset - offset % self._size + self._size
            scan = self._log.scan_past_damage(
                offset,
                segment_end,
                CHECKS | Check.TOPIC,
                rows=_ROWS,
                on_damage=self._report_damage,
            )
            for rows in scan:
                selected = wanted.select(rows, self._log.topic)
                if len(selected):
                    yield selected
                if int(rows["offset"][-1]) >= wanted.end:
                    return
            offset = segment_end

    def _record_start(self, offset: int) -> int:
        """
        Returns where to begin so that no record at or after *offset* is missed: at
        *offset* if a record begins there, else at the base of its segment.
        """
        try:
            self._log.read(offset)
        except (CorruptError, InvalidError):
            # The offset is inside a record or a blank record, or the record is broken.
            return max(offset - offset % self._size, self._log.min_offset)
        return offset

    def note_bad_body(self, _reason: str) -> None:
        """
        A body cannot be decompressed; its line says why.
        """
        self.is_broken = True

    def _report_damage(self, error: CorruptError, behind: int) -> None:
        if any(one.offset == error.offset for one in self._unread):
            self.is_unread = True
        else:
            self.is_broken = True
        click.echo(
            f"pystore: {self._log.path}: offset {error.offset}: {error.reason}; "
            f"skipped to {behind}: run `pystore verify`",
            err=True,
        )
