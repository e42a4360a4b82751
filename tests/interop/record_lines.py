"""
Record lines, and the part of them that does not depend on the log.

A record line is one record with RocketMQ's names, as ``Record.as_dict``, the Java tool
and the golden data have it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

Line = dict[str, Any]

PROPERTY_CRC = "__CRC32#"
STORE_HOST_IPV6 = 0x20

# Place and time of the record, and values that follow from them or from the rest.
_PLACE = {
    "offset",
    "size",
    "queueOffset",
    "physicalOffset",
    "storeTimestamp",
    "storeHost",
    "propertiesRawHex",
    "msgId",
    "offsetMsgId",
    "recordSha256",
    "keys",
    "uniqKey",
}
_SCHEDULED = "SCHEDULE_TOPIC_XXXX"


def message_of(line: Line) -> Line:
    """
    Returns the values that the same message has in every log.

    The tags code of a scheduled message is a time after its store time.
    """
    left_out = _PLACE | ({"tagsCode"} if line["topic"] == _SCHEDULED else set())
    kept = {key: value for key, value in line.items() if key not in left_out}
    kept["sysFlag"] &= ~STORE_HOST_IPV6
    kept["properties"] = {
        name: value
        for name, value in line["properties"].items()
        if name != PROPERTY_CRC
    }
    return kept


def written_bytes(folder: Path) -> dict[str, bytes]:
    """
    Returns every file below *folder* without the zeros at its end.

    A file that has only zeros is left out: it was only allocated.
    """
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes().rstrip(b"\0")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    return {name: content for name, content in files.items() if content}
