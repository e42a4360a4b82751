"""
The commit file of a run: JSON, published by the same rename as the data. Pure.

It holds the offsets of the run, the files with their sizes and rows, and the exported
end of every store. The next run reads only the newest commit file.
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
"""Compressions of Parquet files; the first is the default."""

_SCHEMA_VERSION = 1

_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class ExportShape:
    """
    The options that all runs of one directory share.

    Attributes:
        columns: of the files; topic and day are in the names of directories.
        topics: shell patterns; empty: all topics.
        compression: of the Parquet files.
    """

    columns: tuple[str, ...]
    topics: tuple[str, ...]
    compression: str


@dataclass(frozen=True, slots=True)
class LogGap:
    """
    A gap in the export: the log had changed, and ``--allow-gap`` was given.

    Attributes:
        store: root of the store.
        from_offset: exported end before the gap.
        to_offset: offset at which the export continued.
        reason: one line.
    """

    store: str
    from_offset: int
    to_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class StoreRange:
    """
    The range of one store that a run read.

    Attributes:
        store: root of the store.
        from_offset: start of the range.
        to_offset: end of the range, exclusive.
        records: number of exported records.
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
        store: root of the store that the records are from.
        rows: number of records.
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
    Bytes of a log that were skipped, because they are no records.

    Attributes:
        store: root of the store.
        offset: of the first byte.
        size: in bytes.
        text: the problem in one line.
    """

    store: str
    offset: int
    size: int
    text: str


@dataclass(frozen=True, slots=True)
class Commit:
    """
    The content of a run's commit file.

    Attributes:
        run: number of the run.
        shape: of the whole export.
        ranges: that the run read.
        positions: exported end of every store of this export, by root.
        gaps: that the run left.
        damages: that the run skipped.
        files: that the run wrote.
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
        Number of records that the run exported.
        """
        return sum(one.rows for one in self.files)


def format_commit(commit: Commit) -> bytes:
    """
    Returns the content of a commit file.
    """
    whole = {"schemaVersion": _SCHEMA_VERSION, **_plain(commit)}
    whole["positions"] = format_offsets(commit.positions)
    return json.dumps(whole, ensure_ascii=True, indent=1).encode() + b"\n"


def parse_commit(content: bytes, path: str) -> Commit:
    """
    Parses a commit file.

    Args:
        content: of the file.
        path: of the file, for errors.

    Raises:
        FormatError: the content is invalid, or of a newer version.
    """
    try:
        whole = json.loads(content)
        version = whole["schemaVersion"]
        if version == _SCHEMA_VERSION:
            return _commit(whole)
    except (FormatError, ValueError, KeyError, TypeError, AttributeError) as error:
        # Not JSON, or not of this form: only the user can restore it.
        raise FormatError(
            f"{path}: cannot be read ({error!r}): restore it, or export into another "
            "directory",
            path=path,
        ) from error
    raise FormatError(
        f"{path}: schemaVersion {version} is of a newer pystore: use that version",
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
