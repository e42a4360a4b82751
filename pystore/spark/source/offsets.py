"""
The offsets of a stream, which Spark keeps in its checkpoint. Pure.

A stream offset is the end of a record, with the start and the checksum of that record.
If the checksum differs when the stream restarts, the log was cut below and written
again. This works on every host and after every kind of restart.

With it are kept: the store that was read, the generation of its cuts, its last epochs,
and some records further below. After a cut they show where reading goes on.

Equal offsets have equal JSON: Spark takes a different text for new data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pystore.errors import FormatError
from pystore.spark.source.fork import KeptRecord

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
        store: root of the store that was read; empty: not known.
        generation: of that store's cuts; ``None``: not known.
        epochs: last epochs below ``offset``, with their starts.
        kept: records below ``record``, the newest first.
    """

    offset: int
    record: int | None = None
    crc: int = 0
    store: str = field(default="", compare=False)
    generation: int | None = field(default=None, compare=False)
    epochs: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    kept: tuple[KeptRecord, ...] = field(default=(), compare=False)


StreamOffsets = dict[str, StreamOffset]
"""By the key of the log: see `pystore.spark.source.replicas`."""


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


def _shown(stream_offset: StreamOffset) -> dict[str, Any]:
    shown: dict[str, Any] = {"offset": stream_offset.offset}
    if stream_offset.record is not None:
        shown |= {"record": stream_offset.record, "crc": stream_offset.crc}
    if stream_offset.store:
        shown["store"] = stream_offset.store
    if stream_offset.generation is not None:
        shown["generation"] = stream_offset.generation
    for name in ("epochs", "kept"):
        several = getattr(stream_offset, name)
        if several:
            shown[name] = [list(one) for one in several]
    return shown


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
        return {key: _parsed(one) for key, one in kept["stores"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        # Changed by hand: a guess would lose or repeat records.
        raise FormatError(
            f"the checkpoint's offsets are invalid: {kept!r}: start with a new "
            "checkpoint"
        ) from error


def _parsed(one: Mapping[str, Any]) -> StreamOffset:
    return StreamOffset(
        int(one["offset"]),
        one.get("record"),
        one.get("crc", 0),
        one.get("store", ""),
        one.get("generation"),
        tuple((int(epoch), int(start)) for epoch, start in one.get("epochs", ())),
        tuple(KeptRecord(*map(int, record)) for record in one.get("kept", ())),
    )
