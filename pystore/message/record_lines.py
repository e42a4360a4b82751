"""
Records as lines of JSON.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

from numpy.typing import NDArray

from pystore.bindings.row import RECORD_DTYPE
from pystore.errors import CorruptError, FormatError
from pystore.message.constants import COMPRESSED
from pystore.message.json_lines import JsonLines
from pystore.message.record import Record

__all__ = ["RecordLines"]

_ROW_FIELDS = [name for name in RECORD_DTYPE.names or () if name != "reserved"]

_encode = json.JSONEncoder(ensure_ascii=False).encode


class RecordLines:
    """
    Writes each record as one JSON object on one line.

    The core writes the lines; the few records that it leaves, and lines with more in
    them, are made here.

    Args:
        bodies: add the body: as ``body`` if it is UTF-8, else as ``bodyBase64``.
        decompress: give size and body as decompressed. A body that cannot be
            decompressed stays as stored, and the reason is ``bodyError``.
        digests: add the SHA-256 of record and body, and the property string in hex.
        on_bad_body: called with the reason of a ``bodyError``.
    """

    def __init__(
        self,
        *,
        bodies: bool,
        decompress: bool = False,
        digests: bool = False,
        on_bad_body: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._bodies = bodies
        self._decompress = decompress
        self._digests = digests
        self._on_bad_body = on_bad_body
        left = COMPRESSED if decompress else 0
        self._core = None if digests else JsonLines(bodies=bodies, left_flags=left)

    def chunks(
        self, rows: NDArray[Any], data: memoryview, offset: int
    ) -> Iterator[bytes | memoryview]:
        """
        Yields the lines of *rows*, some at a time; each is valid until the next one.

        Args:
            rows: of a scan.
            data: bytes of the log that hold all of these records.
            offset: of the first byte.
        """
        done = 0
        while done < len(rows):
            if self._core is not None:
                lines, count = self._core.write(rows[done:], data, offset)
                if count:
                    yield lines
                    done += count
                    continue
            fields = rows[_ROW_FIELDS][done].tolist()
            at = fields[0] - offset
            record = Record.of(fields, bytes(data[at : at + fields[6]]))
            yield self.line(record).encode() + b"\n"
            done += 1

    def line(self, record: Record) -> str:
        """
        Returns the line of one record, without a newline.
        """
        problem = ""
        try:
            line = record.as_dict(plain=self._decompress, digests=self._digests)
            plain = self._decompress and self._bodies
            body = record.plain_body if plain else record.body
        except (CorruptError, FormatError) as error:
            # The other fields of the record are whole, and so are the other records.
            problem = str(error)
            line, body = record.as_dict(digests=self._digests), record.body
        if self._bodies:
            line.update(_body(body))
        if problem:
            line["bodyError"] = problem
            self._on_bad_body(problem)
        return _encode(line)


def _body(body: bytes) -> dict[str, str]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        # JSON can hold text only.
        return {"bodyBase64": base64.b64encode(body).decode("ascii")}
