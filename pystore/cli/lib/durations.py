"""
Durations on the command line, ``90s``, ``2h``, and moments as people read them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import click

__all__ = [
    "moment_text",
    "parse_duration",
    "since_text",
    "span_text",
    "until_text",
    "utc_text",
]

_UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_TEXT = re.compile(r"([0-9]{1,9})(s|min|m|h|d)?", re.IGNORECASE)
_SECONDS_MAX = 366 * 86_400


def parse_duration(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> int | None:
    """
    Returns a duration in seconds, from 1 s to a year. The callback of an option.
    """
    if value is None:
        return None
    found = _TEXT.fullmatch(value.strip())
    seconds = int(found[1]) * _UNITS[(found[2] or "").lower()] if found else 0
    if not 0 < seconds <= _SECONDS_MAX:
        raise click.BadParameter(
            f"{value!r} is not a duration: give seconds, or 90s, 30m, 2h, 7d, up to a "
            "year"
        )
    return seconds


def span_text(ms: int) -> str:
    """
    Returns a duration in its two largest units: ``45 s``, ``2 h 5 min``, ``3 d 4 h``.
    """
    seconds = max(0, ms) // 1000
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if not minutes:
        return f"{seconds} s"
    if not hours:
        rest = f" {seconds % 60} s" if seconds % 60 and minutes < 10 else ""
        return f"{minutes} min{rest}"
    if not days:
        return f"{hours} h" + (f" {minutes % 60} min" if minutes % 60 else "")
    return f"{days} d" + (f" {hours % 24} h" if hours % 24 else "")


def utc_text(ms: int) -> str:
    """
    Returns a Unix time in milliseconds as ``2026-03-01 09:00:12 UTC``.
    """
    try:
        at = datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError):
        # A record may hold any number.
        return f"millisecond {ms}"
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def moment_text(ms: int, now_ms: int) -> str:
    """
    Returns a Unix time in milliseconds as seen from now, and as it is: ``5 min ago
    (2026-03-01 09:00:12 UTC)``, ``in 2 h (...)``.
    """
    if ms > now_ms:
        return f"in {span_text(ms - now_ms)} ({utc_text(ms)})"
    return f"{span_text(now_ms - ms)} ago ({utc_text(ms)})"


def since_text(ms: int, now_ms: int) -> str:
    """
    Returns how long something lasts: ``5 min, since 2026-03-01 09:00:12 UTC``.
    """
    return f"{span_text(now_ms - ms)}, since {utc_text(ms)}"


def until_text(ms: int, now_ms: int) -> str:
    """
    Returns how long something will last: ``2 h, until 2026-03-01 11:00:12 UTC``.
    """
    return f"{span_text(ms - now_ms)}, until {utc_text(ms)}"
