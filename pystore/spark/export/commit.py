"""
What a run says of itself: one JSON file within it, published by the same rename as
its data. Pure.

It holds the offsets of this run, the files with their sizes and rows, and for every
store the position up to which it is exported: the newest run is all that the next
one has to read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from pystore.errors import FormatError
from pystore.spark.source.offsets import StreamOffsets, format_offsets, parse_offsets
from pystore.text import camel

__all__ = [
    "COMPRESSIONS",
    "Commit",
    "DamagedRange",
    "ExportShape",
    "ExportedFile",
    "LogGap",
    "StoreRange",
    "format_commit",
    "parse_commit",
]

COMPRESSIONS = ("zstd", "snappy", "gzip", "none")
"""Of Parquet files; the first is the default."""

_SCHEMA_VERSION = 1

_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class ExportShape:
    """
    What all runs of one directory have in common.

    Attributes:
        columns: of the files; topic and day are in the names of directories.
        topics: patterns, as in a shell; empty: all topics.
        compression: of the Parquet files.
    """

    columns: tuple[str, ...]
    topics: tuple[str, ...]
    compression: str


@dataclass(frozen=True, slots=True)
class LogGap:
    """
    Where the log is not the one that was exported, and somebody said to go on.

    Attributes:
        store: its root.
        from_offset: the position before.
        to_offset: where it went on.
        reason: one line.
    """

    store: str
    from_offset: int
    to_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class StoreRange:
    """
    What a run read of one store.

    Attributes:
        store: its root.
        from_offset: the first offset.
        to_offset: behind the last one.
        records: exported.
    """

    store: str
    from_offset: int
    to_offset: int
    records: int


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """
    A Parquet file of a run.

    Attributes:
        path: below the run's directory.
        store: that its records are from.
        rows: records.
        size: in bytes.
        min_offset: of the first record.
        max_offset: of the last record.
    """

    path: str
    store: str
    rows: int
    size: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """
    Bytes of a log that were passed over, because they are no records.

    Attributes:
        store: its root.
        offset: of the first byte.
        size: in bytes.
        text: what is wrong.
    """

    store: str
    offset: int
    size: int
    text: str


@dataclass(frozen=True, slots=True)
class Commit:
    """
    One run.

    Attributes:
        run: its number.
        shape: of the whole export.
        ranges: that it read.
        positions: of every store that was ever exported here, by its root.
        gaps: that it went over.
        damages: that it passed over.
        files: that it wrote.
    """

    run: int
    shape: ExportShape
    ranges: tuple[StoreRange, ...]
    positions: StreamOffsets
    gaps: tuple[LogGap, ...]
    damages: tuple[DamagedRange, ...]
    files: tuple[ExportedFile, ...]

    @property
    def records(self) -> int:
        """
        How many records the run exported.
        """
        return sum(one.rows for one in self.files)


def format_commit(commit: Commit) -> bytes:
    """
    Returns the file of a run.
    """
    whole = {"schemaVersion": _SCHEMA_VERSION, **_plain(commit)}
    whole["positions"] = format_offsets(commit.positions)
    return json.dumps(whole, ensure_ascii=True, indent=1).encode() + b"\n"


def parse_commit(content: bytes, path: str) -> Commit:
    """
    Returns what the file of a run says.

    Args:
        content: of the file.
        path: of it, for errors.

    Raises:
        FormatError: it says nothing that can be relied on.
    """
    try:
        whole = json.loads(content)
        version = whole["schemaVersion"]
        if version == _SCHEMA_VERSION:
            return _commit(whole)
    except (FormatError, ValueError, KeyError, TypeError, AttributeError) as error:
        # Not JSON, or not of this form: whoever changed it must put it right.
        raise FormatError(
            f"{path}: cannot be read ({error!r}): restore it, or export into another "
            "directory",
            path=path,
        ) from error
    raise FormatError(
        f"{path}: schemaVersion {version}: a newer pystore exports here: use that one",
        path=path,
    )


def _commit(whole: Mapping[str, Any]) -> Commit:
    def several(name: str, make: Callable[[Any], _Kind]) -> tuple[_Kind, ...]:
        return tuple(make(one) for one in whole[name])

    shape = whole["shape"]
    return Commit(
        run=int(whole["run"]),
        shape=ExportShape(
            tuple(shape["columns"]), tuple(shape["topics"]), shape["compression"]
        ),
        ranges=several("ranges", lambda one: _of(StoreRange, one)),
        positions=parse_offsets(whole["positions"]),
        gaps=several("gaps", lambda one: _of(LogGap, one)),
        damages=several("damages", lambda one: _of(DamagedRange, one)),
        files=several("files", lambda one: _of(ExportedFile, one)),
    )


def _of(kind: type[_Kind], given: Mapping[str, Any]) -> _Kind:
    names = [one.name for one in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: given[camel(name)] for name in names})


def _plain(value: Any) -> Any:  # noqa: ANN401  of any field
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "__dataclass_fields__"):
        return {
            camel(one.name): _plain(getattr(value, one.name)) for one in fields(value)
        }
    return value
