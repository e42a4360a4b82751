"""
Sizes, rates, counts and durations as text, and the keys of JSON output.
"""

from __future__ import annotations

from collections.abc import Mapping

SCHEMA_VERSION = 1
"""The version of all JSON output: a release may add keys, but not change them."""


_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def camel(name: str) -> str:
    """
    Returns the JSON key for a Python name: ``endOffset`` for ``end_offset``.
    """
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def json_keys(fields: Mapping[str, object]) -> dict[str, object]:
    """
    Returns *fields* with JSON keys.
    """
    return {camel(name): value for name, value in fields.items()}


def count_text(count: int) -> str:
    """
    Returns a number with separated thousands: ``1,234,567``.
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
    Returns a rate: ``1.23 GB/s``, or a dash if no time passed.
    """
    return f"{size_text(size_bytes / seconds)}/s" if seconds > 0 else "-"


def seconds_text(seconds: float) -> str:
    """
    Returns a duration: ``12.3 s``, ``45 ms``.
    """
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.1f} s"
