"""
Both programs build the same consume queues from a log.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from interop import writer
from interop.jvm import StoreTool
from interop.logs import message_again, records_at
from interop.messages import CONFIG, equal_sized
from interop.record_lines import written_bytes
from lib.oracle.golden_data import GoldenStore

from pystore.store.store import Store

QUEUES = "consumequeue"


def test_pystore_builds_the_queue_files_that_rocketmq_builds(
    java: StoreTool, golden_store: GoldenStore, golden_root: Path, tmp_path: Path
) -> None:
    """
    RocketMQ builds files with the same bytes from the log, for all topics, tags, delays
    and transactions.
    """
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    size = golden_store.segment_size + 64
    config = golden_store.expected["config"] | {"mappedFileSizeCommitLog": str(size)}
    queue_file_bytes = int(config["mappedFileSizeConsumeQueue"])
    with Store(ours, segment_size=size, queue_file_bytes=queue_file_bytes) as store:
        for record in records_at(golden_root):
            store.log.append(message_again(record))
    shutil.copytree(ours / "commitlog", theirs / "commitlog")

    java.open(theirs, config)

    assert written_bytes(theirs / QUEUES) == written_bytes(ours / QUEUES)


def test_rocketmq_leaves_the_queues_of_pystore_as_they_are(
    java: StoreTool, tmp_path: Path
) -> None:
    """
    After a clean close there is nothing to dispatch, and nothing is rewritten.
    """
    size, queue_file_bytes = 65536, 400
    with Store(tmp_path, segment_size=size, queue_file_bytes=queue_file_bytes) as store:
        for number in range(1000):
            store.log.append(writer.message(number))
    before = written_bytes(tmp_path / QUEUES)

    report = java.open(tmp_path, CONFIG).report()

    assert before == written_bytes(tmp_path / QUEUES)
    assert 1000 == sum(len(q["entries"]) for q in report["consumeQueues"].values())


def test_queues_that_both_programs_extended_read_as_one(
    java: StoreTool, tmp_path: Path
) -> None:
    """
    By topic, queue and queue offset pystore finds RocketMQ's records and its own.
    """
    with Store(tmp_path, segment_size=65536, queue_file_bytes=400) as store:
        for number in range(30):
            store.log.append(writer.message(number))
    running = java.open(tmp_path, CONFIG)
    running.append(equal_sized(30, mark="java", topic="Topic-0"))
    running.close()

    with Store(tmp_path) as store:
        store.log.append(writer.message(30))
        found = [record.body for record in store.read_from("Topic-0", 0, 0, count=100)]

    ours = [writer.message(number).body for number in (0, 12, 24)]
    theirs = [f"java{number:04}".encode() for number in range(30)]
    assert ours + theirs == found
