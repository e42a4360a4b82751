"""
Names in an exported directory. Pure.

Readers use ``run=<n>/topic=<topic>/day=<yyyy-mm-dd>/*.parquet``. Names that begin with
``_`` belong to the export: Parquet readers ignore them.
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
"""The export's own folder, below the exported directory; readers ignore it."""

LOCK = "lock"
STAGING = "staging"
"""Below `HIDDEN`: the lock of the running export, and unpublished files."""

RECORD = "_commit.json"
"""The commit file within a run."""

_NONE = "__HIVE_DEFAULT_PARTITION__"
_NAME_BYTES = 255
_RUN = re.compile(r"run=([1-9]\d*)")

# The characters that Spark and Hive escape in the value of a partition.
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(32)}


def run_name(number: int) -> str:
    """
    Returns the directory of a run.
    """
    return f"run={number}"


def run_number(name: str) -> int | None:
    """
    Returns the number of a run's directory; ``None``: the name is not of a run.
    """
    found = _RUN.fullmatch(name)
    return int(found[1]) if found else None


def topic_folder(topic: str | None) -> str:
    """
    Returns the directory of a topic.

    Raises:
        InvalidError: the name is too long for a file system.
    """
    name = f"topic={_escaped(topic)}"
    if len(name.encode()) > _NAME_BYTES:
        raise InvalidError(
            f"topic {topic!r}: too long for the name of a directory: exclude this "
            "topic with --topic"
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
        return value.replace(
            "_", "%5F", 1
        )  # a topic of that name is not a missing topic
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in value)


def staging_folder(into: Path) -> Path:
    """
    Returns the directory of unpublished runs.
    """
    return into / HIDDEN / STAGING
