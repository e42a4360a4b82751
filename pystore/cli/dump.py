"""
``pystore dump``: records as JSON, one a line.
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
"""At once: their bytes are read together."""

_encode = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class Wanted:
    """
    Which records.

    Attributes:
        start, end: of the offsets at which they begin.
        topic: their topic, or ``None`` for all.
        queue_id: their queue, or ``None`` for all.
    """

    start: int
    end: int
    topic: str | None
    queue_id: int | None

    def among(self, rows: NDArray[Any], topic_of: Callable[[int], str]) -> NDArray[Any]:
        """
        Returns those of *rows* that are wanted.
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
Example: what was stored of topic orders since offset 1048576
  pystore dump /data/store --from 1048576 --topic orders --bodies
"""


@click.command(short_help="Print records as JSON.", epilog=_EXAMPLE)
@store_argument
@click.option(
    "--from",
    "start",
    type=click.IntRange(0),
    metavar="OFFSET",
    help="Only records that begin at OFFSET or behind it.",
)
@click.option(
    "--to",
    "end",
    type=click.IntRange(0),
    metavar="OFFSET",
    help="Only records that begin below OFFSET.",
)
@click.option("--topic", metavar="TOPIC", help="Only records of TOPIC.")
@click.option("--queue", "queue_id", type=int, metavar="N", help="Only of queue N.")
@click.option(
    "--bodies",
    is_flag=True,
    help="Add the body as stored: as 'body' if it is UTF-8, else as 'bodyBase64'.",
)
@click.option(
    "--decompress",
    is_flag=True,
    help="Say size and digest of compressed bodies when decompressed; with --bodies, "
    "add them decompressed.",
)
@click.option("--json", "_as_json", is_flag=True, help="Changes nothing: it is JSON.")
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
    Print the records of STORE in the order of the log, one JSON object a line.

    The keys are RocketMQ's words. Checksums are not looked at here: `pystore verify`
    does. Where a record is broken a line on stderr says so, the next segment
    follows, and the exit code is 1.
    """
    with CommitLog(store, mode="r") as log:
        wanted = Wanted(
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
        is_broken: whether something could not be read.
    """

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._size = log.ends.segment_size
        self.is_broken = False

    def records(self, wanted: Wanted) -> Iterator[Record]:
        """
        Yields the records that are wanted, in the order of the log.
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
                yield from self._read(wanted.among(rows, self._log.topic))
                if int(rows["offset"][-1]) >= wanted.end:
                    return
            found = scan.cursor
            if found.offset < min(segment_end, self._log.end_offset):
                self._complain(found.offset, found.text, segment_end)
            offset = segment_end

    def _record_start(self, offset: int) -> int:
        """
        Where to begin in order not to miss the first record at *offset* or behind:
        there, if a record begins there, else at the segment's base.
        """
        try:
            self._log.read(offset)
        except CorruptError:
            # Inside of a record, or of a blank one; or it is broken.
            return max(offset - offset % self._size, self._log.min_offset)
        return offset

    def _read(self, rows: NDArray[Any]) -> Iterator[Record]:
        """
        Takes the records out of as few blocks as possible.
        """
        if not len(rows):
            return
        start, last = int(rows["offset"][0]), rows[-1]
        size = int(last["offset"]) + int(last["size"]) - start
        view = self._log.reader.acquire(start, size)
        for fields in rows[_FIELDS].tolist():
            at = fields[0] - start
            yield Record.of(fields, bytes(view[at : at + fields[6]]))

    def _complain(self, offset: int, text: str, following: int) -> None:
        self.is_broken = True
        reason = text or "nothing was written here, but the log goes on"
        click.echo(
            f"pystore: {self._log.path}: offset {offset}: {reason}; passed over to "
            f"{following}: see `pystore verify`",
            err=True,
        )


def _line(record: Record, *, bodies: bool, decompress: bool) -> str:
    try:
        line = record.as_dict(plain=decompress)
        if bodies:
            body = record.plain_body if decompress else record.body
            line.update(_body(body))
    except (CorruptError, FormatError) as error:
        # Which one of a million records it is, only this function knows.
        text = f"record at offset {record.offset}: {error}"
        raise CorruptError(text, offset=record.offset) from error
    return _encode(line)


def _body(body: bytes) -> dict[str, str]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        # JSON holds text only.
        return {"bodyBase64": base64.b64encode(body).decode("ascii")}


def _write(lines: list[str]) -> None:
    if lines:
        lines.append("")
        sys.stdout.buffer.write("\n".join(lines).encode())
        lines.clear()
