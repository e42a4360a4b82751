"""
Sizes on the command line: ``64m``, ``10g``, in units of 1024.
"""

from __future__ import annotations

import re

import click

__all__ = ["parse_size"]

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_TEXT = re.compile(r"([0-9]{1,18})([kmgt]?)(?:i?b)?", re.IGNORECASE)


def parse_size(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> int | None:
    """
    Returns a size in bytes, at least 1. The callback of an option.
    """
    if value is None:
        return None
    found = _TEXT.fullmatch(value.strip())
    size = int(found[1]) * _UNITS[found[2].lower()] if found else 0
    if not size:
        raise click.BadParameter(f"{value!r} is not a size: give bytes, or 64m, 10g")
    return size
