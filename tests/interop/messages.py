"""
Messages and configurations for the Java side.
"""

from __future__ import annotations

import base64
from typing import Any

# Small files, so that a few records reach the next one.
CONFIG = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "400",
    "maxHashSlotNum": "100",
    "maxIndexNum": "400",
}


def java_message(
    topic: str, body: bytes, queue_id: int = 0, **fields: Any
) -> dict[str, Any]:
    """
    Returns a message as the Java tool takes it.

    Args:
        topic: the topic; V2 records are written for more than 127 characters.
        body: the body as it is to be stored.
        queue_id: the queue.
        fields: further keys of a record line: ``flag``, ``sysFlag``,
            ``properties``, ``bornHost`` and so on.
    """
    return {
        "topic": topic,
        "queueId": queue_id,
        "bodyBase64": base64.b64encode(body).decode(),
        "bornTimestamp": 1_700_000_000_000,
        "bornHost": "10.0.0.1:4000",
        "storeHost": "10.0.0.2:10911",
    } | fields


def equal_sized(count: int, *, mark: str, topic: str = "T") -> list[dict[str, Any]]:
    """
    Returns *count* messages whose records are all of one size.
    """
    return [
        java_message(topic, f"{mark}{number:04}".encode()) for number in range(count)
    ]
