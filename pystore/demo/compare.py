"""
Reads all acknowledged records back, and compares them byte for byte.

The records of one acknowledgement follow each other in the log. numpy gathers their
bodies and compares them with the file's lines at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.ffi import Check
from pystore.core.log_reader import LogReader
from pystore.demo.ack_channel import Acks
from pystore.demo.workload import AppendJobs, Piece
from pystore.errors import PystoreError
from pystore.message.constants import CRC_SIZE
from pystore.message.lines import Strings

__all__ = ["AckComparison", "compare"]

_KEYS_HEAD, _KEYS_TAIL = b"KEYS\x01", b"\x02"
_NOTE_EACH = 256


@dataclass(slots=True)
class AckComparison:
    """
    The result of a comparison.

    Attributes:
        records: number of acknowledged records.
        body_bytes: size of their bodies.
        missing: number of records that are missing or differ.
        problem: text about the first of these; empty: there is none.
    """

    records: int = 0
    body_bytes: int = 0
    missing: int = 0
    problem: str = ""


def compare(
    log: LogReader,
    acks: Acks,
    jobs: AppendJobs,
    progress: Callable[[int], None] | None = None,
) -> AckComparison:
    """
    Compares every acknowledged record with its line.

    Topic, queue, key and body are compared; the verification checks checksums. If one
    record of an acknowledgement differs, all its records count as missing.

    Args:
        log: to read.
        acks: in any order.
        jobs: what was appended.
        progress: called now and then with the number of compared acknowledgements.
    """
    result = AckComparison()
    ordered = np.sort(acks, order="offset").tolist()
    for done, (job, offset, end, count) in enumerate(ordered):
        if progress is not None and done % _NOTE_EACH == 0:
            progress(done)
        piece = jobs.piece(job)
        result.records += count
        result.body_bytes += int(piece.bodies[0][-1] - piece.bodies[0][0])
        try:
            problem = _difference(log, offset, end, count, piece)
        except PystoreError as error:
            # An unreadable record counts as missing.
            problem = str(error)
        if problem:
            result.missing += count
            result.problem = result.problem or f"offset {offset}: {problem}"
    return result


def _difference(log: LogReader, offset: int, end: int, count: int, piece: Piece) -> str:
    checks = Check.OFFSET | Check.TOPIC
    rows = next(log.scan(offset, end, checks, rows=count + 1), None)
    found = 0 if rows is None else len(rows)
    if rows is None or found != count or count != piece.end - piece.first:
        return f"{found} records were found, {count} were acknowledged"
    if int(rows["offset"][-1]) + int(rows["size"][-1]) != end:
        return f"the last record does not end at offset {end}"
    ids = np.unique(rows["topic_id"]).tolist()
    if {log.topic(number) for number in ids} != {piece.file.topic}:
        return f"a record is not in topic {piece.file.topic}"
    if (rows["queue_id"] != piece.file.queue_id).any():
        return f"a record is not in queue {piece.file.queue_id}"
    return _difference_of_bytes(log, rows, piece)


def _difference_of_bytes(log: LogReader, rows: NDArray[Any], piece: Piece) -> str:
    key_sizes = np.diff(piece.keys[0])
    around = len(_KEYS_HEAD) + len(_KEYS_TAIL) + CRC_SIZE
    if (rows["properties_size"] != key_sizes + around).any():
        return "the properties have other sizes"
    end = int(rows["offset"][-1]) + int(rows["size"][-1])
    done = 0
    while done < len(rows):
        # A block is in one segment, so this mostly runs once.
        start = int(rows["offset"][done])
        view = log.acquire(start, end - start)
        some = rows[done:]
        some = some[some["offset"] < start + len(view)]
        at = some["offset"].astype(np.int64) - start
        block = np.frombuffer(view, np.uint8)
        body_at, sizes = at + some["body_at"], some["body_size"]
        if not _is_equal(block, body_at, sizes, _some(piece.bodies, done, len(some))):
            return f"a body differs from its line of {piece.file.name}"
        key_at = at + some["properties_at"] + len(_KEYS_HEAD)
        sizes = key_sizes[done : done + len(some)]
        if not _is_equal(block, key_at, sizes, _some(piece.keys, done, len(some))):
            return f"a key differs from its line of {piece.file.name}"
        done += len(some)
    return ""


def _some(strings: Strings, first: int, count: int) -> Strings:
    offsets, data = strings
    return offsets[first : first + count + 1], data


def _is_equal(
    block: NDArray[np.uint8],
    starts: NDArray[np.int64],
    sizes: NDArray[Any],
    expected: Strings,
) -> bool:
    offsets, data = expected
    if (np.diff(offsets) != sizes).any():
        return False
    low, high = int(offsets[0]), int(offsets[-1])
    # Byte k of the expected strings is byte k + shift of the block.
    shifts = np.repeat(starts - offsets[:-1], sizes)
    found = block[np.arange(low, high) + shifts]
    return found.tobytes() == data[low:high]
