"""
What commands print: JSON with stable keys, or text for people.

On a terminal, text has colours and rules and is wrapped between words. Elsewhere it is
plain, and a line is as long as it needs to be.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from pystore.text import SCHEMA_VERSION

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = [
    "echo_json",
    "json_line",
    "lines_text",
    "pairs_text",
    "table_text",
    "verdict_text",
]

_INDENT = 4
_UNLIMITED = 1_000_000


def echo_json(report: Mapping[str, Any]) -> None:
    """
    Prints one JSON object on one line; ``schemaVersion`` comes first.
    """
    click.echo(json_line(report))


def json_line(report: Mapping[str, Any]) -> str:
    """
    Returns what `echo_json` prints.
    """
    whole = {"schemaVersion": SCHEMA_VERSION, **report}
    return json.dumps(whole, ensure_ascii=False)


def verdict_text(text: str, *, is_good: bool) -> str:
    """
    Returns a verdict; on a terminal green or red.
    """
    from rich.text import Text  # noqa: PLC0415

    return _rendered(Text(text, "bold green" if is_good else "bold red"))


def lines_text(lines: Iterable[str]) -> str:
    """
    Returns the lines; on a terminal, a long line continues indented on the next.
    """
    from rich.text import Text  # noqa: PLC0415

    console = _console()
    parts: list[Text] = []
    for line in map(Text.from_ansi, lines):
        width = max(console.width - _INDENT, *map(len, line.plain.split()), 1)
        first, *others = line.wrap(console, width)
        parts += [first, *(Text(" " * _INDENT).append(other) for other in others)]
    return _rendered(Text("\n").join(parts))


def pairs_text(pairs: Iterable[tuple[str, str]]) -> str:
    """
    Returns names and values, one pair a line, the values below each other.

    A value of several lines continues below its first line.
    """
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="cyan")
    for name, value in pairs:
        grid.add_row(name, Text.from_ansi(value))
    return _rendered(grid)


def table_text(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """
    Returns a table: the first column to the left, the others to the right.
    """
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    lines = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = Table.grid(padding=(0, 2))
    for number in range(len(widths)):
        table.add_column(justify="right" if number else "left", no_wrap=True)
    is_plain = not _console().is_terminal
    table.add_row(*header, style="bold")
    table.add_row(
        *(("-" if is_plain else "─") * width for width in widths), style="dim"
    )
    for line in lines[1:]:
        table.add_row(*map(Text.from_ansi, line))
    return _rendered(table)


def _console() -> Console:
    """
    Returns a console that treats output as plain text wherever it is no terminal.
    """
    from rich.console import Console  # noqa: PLC0415

    is_terminal = sys.stdout.isatty()
    return Console(
        force_terminal=is_terminal,
        width=None if is_terminal else _UNLIMITED,
        color_system="auto" if is_terminal else None,
        markup=False,
        emoji=False,
        highlight=False,
    )


def _rendered(renderable: RenderableType) -> str:
    """
    Returns what a console would print. It gets at least as wide as the longest word.
    """
    from rich.measure import Measurement  # noqa: PLC0415

    console = _console()
    options = console.options.update(max_width=_UNLIMITED)
    needed = Measurement.get(console, options, renderable).minimum
    console.width = max(console.width, needed)
    with console.capture() as capture:
        console.print(renderable, no_wrap=True, overflow="ignore", crop=False)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())
