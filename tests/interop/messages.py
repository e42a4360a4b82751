"""
Messages and configurations for the Java side.
"""

from __future__ import annotations

import base64
from typing import Any

from pystore.message.properties import without_crc
from pystore.message.record import Record

# Small files, so that a few records reach the next one.
CONFIG = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "400",
    "maxHashSlotNum": "100",
    "maxIndexNum": "400",
}


STORE_HOST = "10.0.0.2:10911"
BORN_HOST = "10.0.0.1:4000"
BORN_MS = 1_700_000_000_000

_HOST_BITS = 0x30


def java_message(topic: str, body: bytes, **fields: Any) -> dict[str, Any]:
    """
    Returns a message in the form of the Java tool.

    Args:
        topic: the topic; V2 records are written for more than 127 characters.
        body: the stored body.
        fields: keys of a record line: ``queueId``, ``flag``, ``sysFlag``,
            ``properties`` or ``propertiesRawHex``, ``bornHost`` and so on.
    """
    return _route(topic) | {"bodyBase64": base64.b64encode(body).decode()} | fields


def java_batch(topic: str, entries: bytes, **fields: Any) -> dict[str, Any]:
    """
    Returns a batch in the form of the Java tool.

    Args:
        topic: the topic of all messages.
        entries: the messages in client form, one after the other.
        fields: as in ``java_message``.
    """
    return _route(topic) | {"batchBase64": base64.b64encode(entries).decode()} | fields


def java_again(record: Record, store_host: str = STORE_HOST) -> dict[str, Any]:
    """
    Returns the message of *record* for the Java tool; see ``logs.message_again``.
    """
    return java_message(
        record.topic,
        record.body,
        queueId=record.queue_id,
        flag=record.flag,
        sysFlag=record.sys_flag & ~_HOST_BITS,
        reconsumeTimes=record.reconsume_times,
        bornTimestamp=record.born_ms or 1,
        bornHost=record.born_host,
        storeHost=store_host,
        preparedTransactionOffset=record.prepared_offset,
        propertiesRawHex=without_crc(record.properties_raw).hex(),
    )


def _route(topic: str) -> dict[str, Any]:
    return {
        "topic": topic,
        "bornTimestamp": BORN_MS,
        "bornHost": BORN_HOST,
        "storeHost": STORE_HOST,
    }


def equal_sized(
    count: int, *, mark: str, topic: str = "T", queue_id: int = 0
) -> list[dict[str, Any]]:
    """
    Returns *count* messages whose records have one size and do not end in zeros.
    """
    return [
        java_message(
            topic,
            f"{mark}{number:04}".encode(),
            queueId=queue_id,
            properties={"TAGS": "t"},
        )
        for number in range(count)
    ]
