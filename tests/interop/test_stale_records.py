"""
Records that a truncation by RocketMQ leaves above the end (formats 1.9).

RocketMQ moves its positions and leaves the bytes, so whole old records follow the end
of the log.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from interop.jvm import StoreTool
from interop.logs import records_of
from interop.messages import CONFIG, equal_sized

from pystore.store.commit_log import CommitLog

# Two entries per file: RocketMQ removes the queue files above a truncation, so no queue
# names the records that it leaves in the log.
UNNAMED = CONFIG | {"mappedFileSizeConsumeQueue": "40"}


def leave_stale_records(java: StoreTool, root: Path) -> list[dict[str, Any]]:
    """
    Writes ten records, cuts to four, writes two more to another queue, and closes
    cleanly. So the truncated records that follow the two skip offsets of their queue.

    Returns:
        The six records that are the log, as Java reads them.
    """
    store = java.open(root, UNNAMED)
    appended = store.append(equal_sized(10, mark="old-"))
    store.close()
    store = java.open(root, UNNAMED)
    store.truncate(appended[4]["offset"])
    store.append(equal_sized(2, mark="new-", queue_id=1))
    records: list[dict[str, Any]] = store.report()["records"]
    store.close()
    return records


def test_records_that_rocketmq_truncated_come_back_when_it_starts_again(
    java: StoreTool, tmp_path: Path
) -> None:
    """
    Four of the six truncated records follow the two new ones, and return.
    """
    records = leave_stale_records(java, tmp_path)

    again = java.open(tmp_path, UNNAMED).report()["records"]

    assert 6 == len(records)
    assert records == again[:6]
    assert 10 == len(again)


def test_pystore_cuts_the_records_that_rocketmq_would_bring_back(
    java: StoreTool, tmp_path: Path
) -> None:
    """
    No queue names them and they skip offsets of their queue: they are stale (A8).

    Then RocketMQ finds the same end, because zeros follow it.
    """
    records = leave_stale_records(java, tmp_path)
    last = records[-1]

    with CommitLog(tmp_path) as log:
        recovery = log.recovery
        kept = [record.as_dict() for record in records_of(log.reader)]
    again = java.open(tmp_path, UNNAMED)

    assert last["offset"] + last["size"] == recovery.cut_offset
    assert "A8" == recovery.rule
    assert "stale" in recovery.cut_reason
    assert 4 * last["size"] == recovery.cut_bytes
    assert records == kept
    assert recovery.end_offset == again.opened["maxPhyOffset"]
    assert records == again.report()["records"]
