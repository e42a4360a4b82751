"""
The offsets of a stream, which Spark keeps in its checkpoint. Pure.

A stream offset is the end of a record, with the start and the checksum of that record.
If the checksum differs when the stream restarts, the log was cut below and written
again. This works on every host and after every kind of restart.

Equal offsets have equal JSON: Spark takes a different text for new data.
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
    The end of what a stream has read of one log.

    Attributes:
        offset: start of the next record.
        record: start of the last record that was read; ``None``: not known.
        crc: CRC-32 of that record's bytes.
    """

    offset: int
    record: int | None = None
    crc: int = 0


StreamOffsets = dict[str, StreamOffset]
"""By the root of the store."""


def format_offsets(stream_offsets: Mapping[str, StreamOffset]) -> dict[str, Any]:
    """
    Returns the stream offsets as JSON values, as Spark keeps them.
    """
    return {
        "version": _VERSION,
        "stores": {
            store: _shown(stream_offsets[store]) for store in sorted(stream_offsets)
        },
    }


def _shown(stream_offset: StreamOffset) -> dict[str, int]:
    if stream_offset.record is None:
        return {"offset": stream_offset.offset}
    return {
        "offset": stream_offset.offset,
        "record": stream_offset.record,
        "crc": stream_offset.crc,
    }


def parse_offsets(kept: Mapping[str, Any]) -> StreamOffsets:
    """
    Returns the stream offsets from their JSON values.

    Raises:
        FormatError: the version is unknown, or the values are invalid.
    """
    if kept.get("version") != _VERSION:
        raise FormatError(
            f"the checkpoint's offsets have version {kept.get('version')!r}, but this "
            f"pystore reads version {_VERSION}: use the pystore that wrote them, or "
            "start with a new checkpoint"
        )
    try:
        return {
            store: StreamOffset(
                int(one["offset"]), one.get("record"), one.get("crc", 0)
            )
            for store, one in kept["stores"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        # Changed by hand: a guess would lose or repeat records.
        raise FormatError(
            f"the checkpoint's offsets are invalid: {kept!r}: start with a new "
            "checkpoint"
        ) from error
