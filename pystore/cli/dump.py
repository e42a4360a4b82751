"""
``pystore dump``: prints records as JSON, one per line.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from pystore.bindings.ffi import RECORD_DTYPE, Check
from pystore.cli.lib.exit_codes import BAD, DONE
from pystore.cli.lib.group import store_argument
from pystore.errors import CorruptError, FormatError
from pystore.message.record import Record
from pystore.store.commit_log import CommitLog

__all__ = ["dump"]

_FIELDS = [name for name in RECORD_DTYPE.names or () if name != "reserved"]
_ROWS = 512
"""Records whose bytes are read together."""

_encode = json.JSONEncoder(ensure_ascii=False).encode


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
    help="Give size and digest of compressed bodies as decompressed; with --bodies, "
    "add the decompressed bodies.",
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
    _as_json: bool,
) -> int:
    """
    Print the records of STORE in the order of the log, one JSON object per line.

    The keys are RocketMQ's names. This command does not check checksums; `pystore
    verify` does. If a record is broken, a line on stderr gives its offset, the output
    continues with the next segment, and the exit code is 1.
    """
    with CommitLog(store, mode="r") as log:
        wanted = RecordFilter(
            start=max(start or 0, log.min_offset),
            end=log.end_offset if end is None else min(end, log.end_offset),
            topic=topic,
            queue_id=queue_id,
        )
        reader = _RecordReader(log)
        lines: list[str] = []
        for record in reader.records(wanted):
            lines.append(_line(record, bodies=bodies, decompress=decompress))
            if len(lines) == _ROWS:
                _write(lines)
        _write(lines)
        return BAD if reader.is_broken else DONE


class _RecordReader:
    """
    Reads records from a log segment by segment.

    Attributes:
        is_broken: whether a record could not be read.
    """

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._size = log.ends.segment_size
        self.is_broken = False

    def records(self, wanted: RecordFilter) -> Iterator[Record]:
        """
        Yields the records that the filter selects, in the order of the log.
        """
        if wanted.start >= wanted.end:
            return
        offset = self._record_start(wanted.start)
        while offset < wanted.end:
            segment_end = offset - offset % self._size + self._size
            checks = Check.OFFSET | Check.TOPIC
            scan = self._log.scan(
                offset, segment_end, checks, rows=_ROWS, stops_at_damage=True
            )
            for rows in scan:
                yield from self._read(wanted.select(rows, self._log.topic))
                if int(rows["offset"][-1]) >= wanted.end:
                    return
            found = scan.cursor
            if found.offset < min(segment_end, self._log.end_offset):
                self._report_damage(found.offset, found.text, segment_end)
            offset = segment_end

    def _record_start(self, offset: int) -> int:
        """
        Returns where to begin so that no record at or after *offset* is missed: at
        *offset* if a record begins there, else at the base of its segment.
        """
        try:
            self._log.read(offset)
        except CorruptError:
            # The offset is inside a record or a blank record, or the record is broken.
            return max(offset - offset % self._size, self._log.min_offset)
        return offset

    def _read(self, rows: NDArray[Any]) -> Iterator[Record]:
        """
        Yields the records of these rows from one block.
        """
        if not len(rows):
            return
        start, last = int(rows["offset"][0]), rows[-1]
        size = int(last["offset"]) + int(last["size"]) - start
        view = self._log.reader.acquire(start, size)
        for fields in rows[_FIELDS].tolist():
            at = fields[0] - start
            yield Record.of(fields, bytes(view[at : at + fields[6]]))

    def _report_damage(self, offset: int, text: str, following: int) -> None:
        self.is_broken = True
        reason = text or "nothing was written here, but the log continues"
        click.echo(
            f"pystore: {self._log.path}: offset {offset}: {reason}; skipped to "
            f"{following}: run `pystore verify`",
            err=True,
        )


def _line(record: Record, *, bodies: bool, decompress: bool) -> str:
    try:
        line = record.as_dict(plain=decompress)
        if bodies:
            body = record.plain_body if decompress else record.body
            line.update(_body(body))
    except (CorruptError, FormatError) as error:
        # Only this function knows the offset of the record.
        text = f"record at offset {record.offset}: {error}"
        raise CorruptError(text, offset=record.offset) from error
    return _encode(line)


def _body(body: bytes) -> dict[str, str]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        # JSON can hold text only.
        return {"bodyBase64": base64.b64encode(body).decode("ascii")}


def _write(lines: list[str]) -> None:
    if lines:
        lines.append("")
        sys.stdout.buffer.write("\n".join(lines).encode())
        lines.clear()
