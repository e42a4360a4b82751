"""
Delivery times by the broker's own delay levels.

The core codes delayed records by RocketMQ's default levels. Another
``messageDelayLevel`` is known from the broker's configuration only; then the few
delayed records of a dispatch are coded here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.core.log_reader import LogReader
from pystore.message.properties import SCHEDULE_TOPIC, delivery_ms

__all__ = ["with_delivery_times"]


def with_delivery_times(
    log: LogReader, rows: NDArray[Any], levels_ms: tuple[int, ...]
) -> NDArray[Any]:
    """
    Returns rows with the tags codes that a broker with these levels gives.

    Args:
        log: open, with the records.
        rows: of a scan with topics and tags codes.
        levels_ms: from level 1; empty: RocketMQ's default.
    """
    if not levels_ms:
        return rows
    topics = [at for at in np.unique(rows["topic_id"]) if _is_delayed(log, int(at))]
    changed = rows.copy()
    for at in np.flatnonzero(np.isin(rows["topic_id"], topics)).tolist():
        record = log.read(int(rows["offset"][at]))
        due = delivery_ms(
            record.topic, record.properties, record.store_ms, levels_ms=levels_ms
        )
        if due is not None:
            changed["tags_code"][at] = due
    return changed


def _is_delayed(log: LogReader, topic_id: int) -> bool:
    return log.topic(topic_id) == SCHEDULE_TOPIC
