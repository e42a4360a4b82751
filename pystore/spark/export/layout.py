"""
Names in an exported directory. Pure.

``run=<n>/topic=<topic>/day=<yyyy-mm-dd>/*.parquet`` is what readers see. What begins
with ``_`` is ours: Parquet readers pass over it.
"""

from __future__ import annotations

import re
from pathlib import Path

from pystore.errors import InvalidError

__all__ = [
    "HIDDEN",
    "LOCK",
    "RECORD",
    "STAGING",
    "day_folder",
    "run_name",
    "run_number",
    "staging_folder",
    "topic_folder",
]

HIDDEN = "_export"
"""What is not yet, or never, for readers; below the exported directory."""

LOCK = "lock"
STAGING = "staging"
"""Below `HIDDEN`: who exports, and what is not published yet."""

RECORD = "_commit.json"
"""Within a run: what it holds, and up to where each store is exported."""

_NONE = "__HIVE_DEFAULT_PARTITION__"
_NAME_BYTES = 255
_RUN = re.compile(r"run=([1-9]\d*)")

# What Spark and Hive escape in the value of a partition, and no more.
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(32)}


def run_name(number: int) -> str:
    """
    Returns the directory of a run.
    """
    return f"run={number}"


def run_number(name: str) -> int | None:
    """
    Returns the number of a run's directory; ``None``: it is none.
    """
    found = _RUN.fullmatch(name)
    return int(found[1]) if found else None


def topic_folder(topic: str | None) -> str:
    """
    Returns the directory of a topic.

    Raises:
        InvalidError: longer than any file system takes.
    """
    name = f"topic={_escaped(topic)}"
    if len(name.encode()) > _NAME_BYTES:
        raise InvalidError(
            f"topic {topic!r}: too long for the name of a directory: leave it out by "
            "--topic"
        )
    return name


def day_folder(day: str | None) -> str:
    """
    Returns the directory of a day, ``yyyy-mm-dd``; ``None``: the time is unknown.
    """
    return f"day={_escaped(day)}"


def _escaped(value: str | None) -> str:
    if not value:
        return _NONE
    if value == _NONE:
        return value.replace("_", "%5F", 1)  # a topic of that name is not "none"
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in value)


def staging_folder(into: Path) -> Path:
    """
    Returns where runs are prepared.
    """
    return into / HIDDEN / STAGING
