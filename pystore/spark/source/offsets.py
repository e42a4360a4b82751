"""
Where a stream stands: the offsets that Spark keeps in a checkpoint. Pure.

A position is the end of a record, and names that record and its checksum: if it is
another one when the stream comes back, the log was cut below and written anew,
whoever did it and whatever became of the host.

The JSON is stable: Spark takes another text for news.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pystore.errors import FormatError

__all__ = ["StreamOffset", "StreamOffsets", "format_offsets", "parse_offsets"]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """
    Up to where one log was read.

    Attributes:
        offset: a record begins there, or will.
        record: where the last record below begins; ``None``: not known.
        crc: CRC-32 of that record's bytes.
    """

    offset: int
    record: int | None = None
    crc: int = 0


StreamOffsets = dict[str, StreamOffset]
"""By the root of the store."""


def format_offsets(positions: Mapping[str, StreamOffset]) -> dict[str, Any]:
    """
    Returns what Spark keeps, as values of JSON.
    """
    return {
        "version": _VERSION,
        "stores": {store: _shown(positions[store]) for store in sorted(positions)},
    }


def _shown(position: StreamOffset) -> dict[str, int]:
    if position.record is None:
        return {"offset": position.offset}
    return {
        "offset": position.offset,
        "record": position.record,
        "crc": position.crc,
    }


def parse_offsets(kept: Mapping[str, Any]) -> StreamOffsets:
    """
    Returns the positions that Spark kept.

    Raises:
        FormatError: another version, or not ours at all.
    """
    if kept.get("version") != _VERSION:
        raise FormatError(
            f"the checkpoint's offsets have version {kept.get('version')!r}, this "
            f"pystore reads {_VERSION}: go on with the pystore that wrote them, or "
            "begin with a new checkpoint"
        )
    try:
        return {
            store: StreamOffset(
                int(one["offset"]), one.get("record"), one.get("crc", 0)
            )
            for store, one in kept["stores"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        # Somebody changed it by hand: a guess would lose or repeat records.
        raise FormatError(
            f"the checkpoint's offsets are not ours: {kept!r}: begin with a new one"
        ) from error
