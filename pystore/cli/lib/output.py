"""
What commands print: JSON with stable keys, or text for people.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from pystore.text import SCHEMA_VERSION

__all__ = ["echo_json", "pairs_text", "table_text"]


def echo_json(report: Mapping[str, Any]) -> None:
    """
    Prints one JSON object on one line; ``schemaVersion`` comes first.
    """
    whole = {"schemaVersion": SCHEMA_VERSION, **report}
    click.echo(json.dumps(whole, ensure_ascii=False))


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
