"""
Parses the options of the data source. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pystore.errors import InvalidError

__all__ = ["ON_DAMAGE", "SourceOptions", "StreamOptions", "parse_options"]

ON_DAMAGE = ("fail", "report", "skip")

_ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)
_ROWS_PER_BATCH = 8192
_SKEW_MS = 3000
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_BOTH = (
    "path",
    "paths",
    "columns",
    "includeBody",
    "topics",
    "queueIds",
    "onDamage",
    "failOnDataLoss",
    "rowsPerBatch",
    "splitBytes",
)
_BATCH = ("fromOffset", "toOffset", "fromTime", "toTime", "maxClockSkew")
_OF_CATALOG = frozenset(
    (
        "collation",
        "comment",
        "external",
        "is_managed_location",
        "location",
        "owner",
        "provider",
        "serialization.format",
        "table_type",
        "transient_lastddltime",
    )
)
"""Properties of a table in Spark's catalog, which are passed as options."""

_CATALOG_OPTION = "option."
"""Prefix of the options of such a table, which are passed twice."""

_STREAM = (
    "startingOffsets",
    "startingTimestamp",
    "readUpTo",
    "maxBytesPerTrigger",
    "maxRecordsPerTrigger",
)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """
    The options of a stream.

    Attributes:
        starting: ``earliest``, ``latest`` or an offset.
        starting_of: offsets by the key of a log, or by the root of a store.
        starting_ms: store time of the first record; ``None``: not given.
        published: whether to read up to the published end, above the confirm offset.
        max_bytes: limit of the log's bytes in one batch; ``None``: no limit.
        max_records: limit of the records in one batch; ``None``: no limit.
    """

    starting: str | int = "earliest"
    starting_of: tuple[tuple[str, int], ...] = ()
    starting_ms: int | None = None
    published: bool = False
    max_bytes: int | None = None
    max_records: int | None = None


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """
    The options of the data source.

    Attributes:
        paths: of stores: paths, globs, ``file:`` URLs.
        columns: names; ``None``: all columns.
        include_body: whether all columns include the body.
        from_offset: read records that begin at or above it; ``None``: all.
        to_offset: read records that begin below it; ``None``: all.
        topics: shell patterns; a topic is read if it matches one; ``None``: all.
        queues: queue ids; ``None``: all.
        from_ms: the least store time, in ms since 1970; ``None``: all.
        to_ms: the end of the store times, exclusive; ``None``: all.
        skew_ms: within an epoch, store times never go back by more.
        on_damage: ``fail``, ``report`` or ``skip``.
        rows_per_batch: most rows in one Arrow batch.
        split_bytes: most bytes of one segment in one partition; ``None``: all.
        fail_on_data_loss: whether a query fails if records were deleted or cut that
            it should read or has read.
        stream: options of a stream.
    """

    paths: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    include_body: bool = False
    from_offset: int | None = None
    to_offset: int | None = None
    topics: tuple[str, ...] | None = None
    queues: frozenset[int] | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    skew_ms: int = _SKEW_MS
    on_damage: str = "fail"
    rows_per_batch: int = _ROWS_PER_BATCH
    split_bytes: int | None = None
    fail_on_data_loss: bool = True
    stream: StreamOptions = StreamOptions()


def parse_options(
    given: Mapping[str, str], *, is_stream: bool | None = None
) -> SourceOptions:
    """
    Parses the options that Spark passes. Names are not case-sensitive.

    Args:
        given: values by name.
        is_stream: whether a stream or a batch is read; ``None``: not known yet.

    Raises:
        InvalidError: a name is unknown, or a value is invalid.
    """
    options = {name.lower(): value for name, value in given.items()}
    options = {
        name: value
        for name, value in options.items()
        if name not in _OF_CATALOG and not name.startswith(_CATALOG_OPTION)
    }
    _check_names(options, is_stream)
    columns = options.get("columns")
    on_damage = options.get("ondamage", "fail").lower()
    if on_damage not in ON_DAMAGE:
        raise InvalidError(f"onDamage {on_damage!r}: use one of {', '.join(ON_DAMAGE)}")
    return SourceOptions(
        paths=_paths(options),
        columns=None if columns is None else tuple(_names(columns)),
        include_body=_flag("includeBody", options.get("includebody", "false")),
        from_offset=_number("fromOffset", options.get("fromoffset"), 0),
        to_offset=_number("toOffset", options.get("tooffset"), 0),
        topics=_patterns(options.get("topics")),
        from_ms=_time("fromTime", options.get("fromtime")),
        queues=_queues(options.get("queueids")),
        to_ms=_time("toTime", options.get("totime")),
        skew_ms=_seconds("maxClockSkew", options.get("maxclockskew"), _SKEW_MS),
        on_damage=on_damage,
        rows_per_batch=_number("rowsPerBatch", options.get("rowsperbatch"), 1)
        or _ROWS_PER_BATCH,
        split_bytes=_number("splitBytes", options.get("splitbytes"), 1),
        fail_on_data_loss=_flag(
            "failOnDataLoss", options.get("failondataloss", "true")
        ),
        stream=_stream(options),
    )


def _check_names(options: Mapping[str, str], is_stream: bool | None) -> None:
    other = {True: _BATCH, False: _STREAM, None: ()}[is_stream]
    for name in options:
        for one in other:
            if name == one.lower():
                raise InvalidError(
                    f"option {one} is for streams only: use readStream"
                    if one in _STREAM
                    else f"option {one} is not for streams: use startingOffsets for "
                    "the start, and a filter for the rest"
                )
        if name not in [one.lower() for one in _BOTH + _BATCH + _STREAM]:
            known = ", ".join((_BOTH + _BATCH + _STREAM)[2:])
            raise InvalidError(f"option {name!r} is unknown: use one of {known}")


def _stream(options: Mapping[str, str]) -> StreamOptions:
    given = options.get("startingoffsets", "earliest")
    starting: str | int = given.lower()
    starting_of: tuple[tuple[str, int], ...] = ()
    if given.lstrip().startswith("{"):
        starting, starting_of = "earliest", _offsets_of(given)
    elif starting not in ("earliest", "latest"):
        if not given[:1].isdigit():
            raise InvalidError(
                f"startingOffsets {given!r}: use earliest, latest, an offset, or JSON "
                "with the offset of each store"
            )
        starting = _number("startingOffsets", given, 0) or 0
    up_to = options.get("readupto", "confirmed").lower()
    if up_to not in ("confirmed", "published"):
        raise InvalidError(f"readUpTo {up_to!r}: use confirmed or published")
    number = options.get("maxrecordspertrigger")
    return StreamOptions(
        starting=starting,
        starting_of=starting_of,
        starting_ms=_time("startingTimestamp", options.get("startingtimestamp")),
        published=up_to == "published",
        max_bytes=_number("maxBytesPerTrigger", options.get("maxbytespertrigger"), 1),
        max_records=_number("maxRecordsPerTrigger", number, 1),
    )


def _offsets_of(text: str) -> tuple[tuple[str, int], ...]:
    try:
        given = json.loads(text)
    except ValueError:  # the message shows the text
        given = {"": -1}
    if not all(isinstance(one, int) and one >= 0 for one in given.values()):
        raise InvalidError(
            f"startingOffsets {text!r}: use JSON like "
            '{"/data/store": 4096, "cluster#set": 0}'
        )
    return tuple(given.items())


def _paths(options: Mapping[str, str]) -> tuple[str, ...]:
    several = options.get("paths")
    if several is not None:
        return tuple(json.loads(several))
    path = options.get("path")
    if not path:
        raise InvalidError(
            "no path: call .load(path) with the root of a store, or a glob; Spark "
            "passes no path of a table in its catalog: add WITH (path = '...')"
        )
    return (path,)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _patterns(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(_names(text))
    if not names:
        raise InvalidError("topics is empty: name a topic, or omit the option")
    return names


def _queues(text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    names = _names(text)
    if not names or not all(name.lstrip("-").isdecimal() for name in names):
        raise InvalidError(f"queueIds {text!r}: use numbers, separated by commas")
    return frozenset(map(int, names))


def _seconds(name: str, text: str | None, default_ms: int) -> int:
    if text is None:
        return default_ms
    digits = text.strip().lower().removesuffix("s")
    if not digits.isdecimal():
        raise InvalidError(f"{name} {text!r}: use seconds, for example 60s")
    return 1000 * int(digits)


def _time(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError as error:  # the message names the text
        raise InvalidError(
            f"{name} {text!r}: use a time like 2026-01-31T12:00:00 (in UTC, or with "
            "an offset)"
        ) from error
    aware = at if at.tzinfo else at.replace(tzinfo=UTC)
    return (aware - _ORIGIN) // timedelta(milliseconds=1)


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidError(f"{name} {text!r}: use true or false")
    return text.lower() == "true"


def _number(name: str, text: str | None, least: int) -> int | None:
    """
    A number of bytes or rows. A unit is a power of 1024.
    """
    if text is None:
        return None
    digits = text.strip().lower().removesuffix("b").removesuffix("i")
    unit = _UNITS.get(digits[-1:], 1)
    digits = digits.rstrip("kmgt") if unit > 1 else digits
    if not digits.isascii() or not digits.isdigit() or int(digits) * unit < least:
        raise InvalidError(
            f"{name} {text!r}: use a number from {least} on, for example 64m"
        )
    return int(digits) * unit
