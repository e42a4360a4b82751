"""
What commands print: JSON with stable keys, or text for people.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

__all__ = [
    "SCHEMA_VERSION",
    "camel",
    "count_text",
    "echo_json",
    "json_keys",
    "pairs_text",
    "rate_text",
    "seconds_text",
    "size_text",
    "table_text",
]

SCHEMA_VERSION = 1
"""Of all JSON output; keys may be added to it, not changed."""

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def camel(name: str) -> str:
    """
    Returns a name of ours as a JSON key: ``end_offset`` is ``endOffset``.
    """
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def json_keys(fields: Mapping[str, object]) -> dict[str, object]:
    """
    Returns *fields* with JSON keys.
    """
    return {camel(name): value for name, value in fields.items()}


def echo_json(report: Mapping[str, Any]) -> None:
    """
    Prints one JSON object on one line; ``schemaVersion`` comes first.
    """
    whole = {"schemaVersion": SCHEMA_VERSION, **report}
    click.echo(json.dumps(whole, ensure_ascii=False))


def count_text(count: int) -> str:
    """
    Returns a number with its thousands apart: ``1,234,567``.
    """
    return f"{count:,}"


def size_text(size_bytes: float) -> str:
    """
    Returns a size in units of 1000: ``23.4 MB``.
    """
    if size_bytes < 1000:
        return f"{size_bytes:.0f} B"
    exponent = 0
    while size_bytes >= 999.5 and exponent < len(_UNITS) - 1:
        size_bytes /= 1000
        exponent += 1
    digits = 0 if size_bytes >= 100 else 1 if size_bytes >= 10 else 2
    return f"{size_bytes:.{digits}f} {_UNITS[exponent]}"


def rate_text(size_bytes: int, seconds: float) -> str:
    """
    Returns a rate: ``1.23 GB/s``, or a dash where no time passed.
    """
    return f"{size_text(size_bytes / seconds)}/s" if seconds > 0 else "-"


def seconds_text(seconds: float) -> str:
    """
    Returns a duration: ``12.3 s``, ``45 ms``.
    """
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.1f} s"


def pairs_text(pairs: Iterable[tuple[str, str]]) -> str:
    """
    Returns names and values, one pair a line, the values below each other.

    A value of several lines goes on below itself.
    """
    rows = list(pairs)
    width = max((len(name) for name, _ in rows), default=0)
    gap = "\n" + " " * (width + 2)
    return "\n".join(
        f"{name:<{width}}  {value}".rstrip().replace("\n", gap) for name, value in rows
    )


def table_text(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """
    Returns a table: the first column to the left, the others to the right.
    """
    lines = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * width for width in widths]
    return "\n".join(_row(line, widths) for line in (lines[0], rule, *lines[1:]))


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = cells
    aligned = [f"{first:<{widths[0]}}"]
    aligned += [f"{c:>{width}}" for c, width in zip(rest, widths[1:], strict=True)]
    return "  ".join(aligned).rstrip()
