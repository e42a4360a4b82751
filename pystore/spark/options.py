"""
The options of the data source: text to values. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pystore.errors import InvalidError

__all__ = ["ON_DAMAGE", "SourceOptions", "parse_options"]

ON_DAMAGE = ("fail", "report", "skip")

_ROWS_PER_BATCH = 8192
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_KNOWN = (
    "path",
    "paths",
    "columns",
    "includebody",
    "fromoffset",
    "tooffset",
    "ondamage",
    "rowsperbatch",
    "splitbytes",
)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """
    What a user chose.

    Attributes:
        paths: of stores: paths, globs, ``file:`` URLs.
        columns: names, or ``None`` for all of them.
        include_body: whether bodies are among all of them.
        from_offset: records that begin at or above it; ``None``: all.
        to_offset: records that begin below it; ``None``: all.
        on_damage: ``fail``, ``report`` or ``skip``.
        rows_per_batch: at most so many in one Arrow batch.
        split_bytes: at most so many of one segment in one partition.
    """

    paths: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    include_body: bool = False
    from_offset: int | None = None
    to_offset: int | None = None
    on_damage: str = "fail"
    rows_per_batch: int = _ROWS_PER_BATCH
    split_bytes: int | None = None


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """
    Returns the options that Spark hands on; names are of any case.

    Raises:
        InvalidError: a name that is unknown, or a value that means nothing.
    """
    options = {name.lower(): value for name, value in given.items()}
    for name in options:
        if name not in _KNOWN:
            raise InvalidError(
                f"option {name!r} is unknown: one of includeBody, columns, fromOffset, "
                "toOffset, onDamage, rowsPerBatch, splitBytes"
            )
    columns = options.get("columns")
    on_damage = options.get("ondamage", "fail").lower()
    if on_damage not in ON_DAMAGE:
        raise InvalidError(
            f"onDamage {on_damage!r}: it is one of {', '.join(ON_DAMAGE)}"
        )
    return SourceOptions(
        paths=_paths(options),
        columns=None if columns is None else tuple(_names(columns)),
        include_body=_flag("includeBody", options.get("includebody", "false")),
        from_offset=_number("fromOffset", options.get("fromoffset"), 0),
        to_offset=_number("toOffset", options.get("tooffset"), 0),
        on_damage=on_damage,
        rows_per_batch=_number("rowsPerBatch", options.get("rowsperbatch"), 1)
        or _ROWS_PER_BATCH,
        split_bytes=_number("splitBytes", options.get("splitbytes"), 1),
    )


def _paths(options: Mapping[str, str]) -> tuple[str, ...]:
    several = options.get("paths")
    if several is not None:
        return tuple(json.loads(several))
    path = options.get("path")
    if not path:
        raise InvalidError("no path: .load(path) takes the root of a store, or a glob")
    return (path,)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidError(f"{name} {text!r}: it is true or false")
    return text.lower() == "true"


def _number(name: str, text: str | None, least: int) -> int | None:
    """
    A number of bytes or rows, with a unit of 1024s if there is one.
    """
    if text is None:
        return None
    digits = text.strip().lower().removesuffix("b").removesuffix("i")
    unit = _UNITS.get(digits[-1:], 1)
    digits = digits.rstrip("kmgt") if unit > 1 else digits
    if not digits.isascii() or not digits.isdigit() or int(digits) * unit < least:
        raise InvalidError(f"{name} {text!r}: it is a number from {least} on, as 64m")
    return int(digits) * unit
