"""
Two programs write one store by turns: each continues where the other stopped.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from interop import writer
from interop.jvm import StoreTool
from interop.logs import records_of
from interop.messages import CONFIG, equal_sized, java_batch, java_message

from pystore.message.message import Message
from pystore.store.commit_log import CommitLog
from pystore.store.store import Store
from pystore.verify import verify_store

SEGMENT_SIZE = int(CONFIG["mappedFileSizeCommitLog"])
ROUNDS = 3

# After a clean stop RocketMQ dispatches the records *above* the end of its queues. So
# it skips the record that begins there, and gives all later ones a queue offset that is
# one too low.


def lines_of(log: CommitLog) -> list[dict[str, Any]]:
    """
    Returns every record of *log* as a record line.
    """
    return [record.as_dict() for record in records_of(log.reader)]


def assert_queues_have_no_gap(lines: list[dict[str, Any]]) -> None:
    """
    Checks that the queue offsets of each queue count from 0 without a gap.
    """
    queues = defaultdict(list)
    for line in lines:
        queues[line["topic"], line["queueId"]].append(line["queueOffset"])
    for queue, offsets in queues.items():
        assert list(range(len(offsets))) == offsets, queue


def assert_each_is_found_in_its_queue(
    store: Store, lines: list[dict[str, Any]]
) -> None:
    """
    Checks that topic, queue and queue offset lead to each record.
    """
    for line in lines:
        found = store.read(line["topic"], line["queueId"], line["queueOffset"])
        assert line["offset"] == found.offset


def run_until_killed(root: Path, records: int) -> list[list[str]]:
    """
    Kills a writer some time after it has written this number of records.

    Returns:
        Offset and number of each record that it acknowledged.
    """
    command = [sys.executable, writer.__file__, str(root), str(SEGMENT_SIZE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        begun = [process.stdout.readline() for _ in range(records)]
        process.send_signal(signal.SIGKILL)
        printed = [*begun, *process.stdout.readlines()]
    return [line.split() for line in printed if line.endswith("\n")]


def test_a_store_that_pystore_closed_starts_normally_in_rocketmq(
    java: StoreTool, tmp_path: Path
) -> None:
    """
    There is no ``abort``; RocketMQ finds the end and the records of pystore.
    """
    with CommitLog(tmp_path, segment_size=SEGMENT_SIZE) as log:
        for number in range(1000):
            log.append(writer.message(number))
        lines, end = lines_of(log), log.end_offset

    store = java.open(tmp_path, CONFIG)

    assert not store.opened["abortFilePresent"]
    assert end == store.opened["maxPhyOffset"]
    assert lines == store.report()["records"]


def test_rocketmq_finds_every_record_that_a_killed_pystore_acknowledged(
    java: StoreTool, tmp_path: Path
) -> None:
    """
    There is an ``abort``, and every acknowledged record is at its offset; at most the
    one record in flight follows the last of them.
    """
    acknowledged = run_until_killed(tmp_path, 2000)

    store = java.open(tmp_path, CONFIG)
    read = store.report()["records"]
    offsets = [str(line["offset"]) for line in read]

    assert store.opened["abortFilePresent"]
    assert [offset for offset, _ in acknowledged] == offsets[: len(acknowledged)]
    assert len(offsets) - len(acknowledged) in (0, 1)
    assert [f"key{number}" for _, number in acknowledged] == [
        line["keys"] for line in read[: len(acknowledged)]
    ]
    assert_queues_have_no_gap(read)


def test_a_write_of_rocketmq_after_a_kill_is_noticed(
    mortal_java: StoreTool, tmp_path: Path
) -> None:
    """
    The ``abort`` of pystore is now RocketMQ's: the bounds of pystore are void, and the
    records of RocketMQ are kept.
    """
    run_until_killed(tmp_path, 10)
    store = mortal_java.open(tmp_path, CONFIG)
    store.append(equal_sized(5, mark="java"))
    lines = store.report()["records"]
    mortal_java.halt()

    with CommitLog(tmp_path) as log:
        foreign = log.recovery.foreign
        assert lines == lines_of(log)

    assert any(reason.startswith("abort") for reason in foreign)


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "halted"])
def test_two_programs_write_one_store_by_turns(
    tmp_path: Path, mortal_java: StoreTool, is_closed: bool
) -> None:
    """
    No record is lost, added or numbered twice, and pystore reports the other writer.
    """
    numbers = count()
    seen: list[dict[str, Any]] = []
    for turn in range(ROUNDS):
        with Store(tmp_path, segment_size=SEGMENT_SIZE, queue_file_bytes=400) as store:
            recovery = store.log.recovery
            assert bool(recovery.foreign) == (turn > 0)
            assert 0 == recovery.cut_bytes
            assert seen == lines_of(store.log)
            for _ in range(200):
                store.log.append(writer.message(next(numbers)))
            seen = lines_of(store.log)

        theirs = mortal_java.open(tmp_path, CONFIG)
        assert seen == theirs.report()["records"]
        theirs.append([java_turn(next(numbers)) for _ in range(100)])
        theirs.append([java_batch("Topic-0", batch_of(numbers, 10), queueId=1)])
        seen = theirs.report()["records"]
        if is_closed:
            theirs.close()
        else:
            mortal_java.restart()

    with Store(tmp_path) as store:
        assert store.log.recovery.foreign
        assert seen == lines_of(store.log)
    with Store(tmp_path) as store:
        assert () == store.log.recovery.foreign
        assert store.log.recovery.is_clean
        assert seen == lines_of(store.log)
        assert_each_is_found_in_its_queue(store, seen)
    assert ROUNDS * 310 == len(seen)
    assert_queues_have_no_gap(seen)


def test_rocketmq_has_a_queue_entry_for_every_record_that_pystore_appended(
    java: StoreTool, tmp_path: Path
) -> None:
    """
    The first record after RocketMQ's records, where its queues end, has one, too.
    """
    store = java.open(tmp_path, CONFIG)
    store.append(equal_sized(5, mark="java"))
    store.close()
    with CommitLog(tmp_path) as log:
        log.append_batch(
            [Message("T", f"ours {number}".encode()) for number in range(5)]
        )
        offsets = [record.offset for record in records_of(log.reader)]

    again = java.open(tmp_path, CONFIG)
    entries = again.report()["consumeQueues"]["T/0"]["entries"]
    again.append(equal_sized(5, mark="more"))

    assert offsets == [offset for offset, _, _ in entries]
    assert_queues_have_no_gap(again.report()["records"])


def java_turn(number: int) -> dict[str, Any]:
    """
    Returns message *number* for the Java side.
    """
    ours = writer.message(number)
    return java_message(
        ours.topic,
        ours.body,
        queueId=ours.queue_id,
        propertiesRawHex=ours.properties_raw.hex(),
    )


def batch_of(numbers: count[int], size: int) -> bytes:
    """
    Returns the next messages in client form.
    """
    return b"".join(
        Message("Topic-0", f"batched {next(numbers)}".encode()).client_form
        for _ in range(size)
    )


@pytest.mark.parametrize("turns", [1, 2])
def test_what_a_killed_rocketmq_did_not_index_it_indexes_after_pystore(
    tmp_path: Path, mortal_java: StoreTool, turns: int
) -> None:
    """
    A power cut took the index. pystore adds to the store and closes it; RocketMQ then
    finds its own records by key, as it does when it starts alone.
    """
    root = tmp_path / "store"
    store = mortal_java.open(root, CONFIG)
    store.append(
        [
            java_message("Topic-0", b"body", properties={"KEYS": f"key-{number}"})
            for number in range(20)
        ]
    )
    mortal_java.restart()
    shutil.rmtree(root / "index")
    alone = tmp_path / "alone"
    shutil.copytree(root, alone)
    for turn in range(turns):
        with Store(root, segment_size=SEGMENT_SIZE, queue_file_bytes=400) as ours:
            assert bool(turn) == ours.log.recovery.is_clean
            ours.log.append(writer.message(turn))
        assert "whole" == verify_store(root).verdict

    queries = [{"topic": "Topic-0", "key": f"key-{number}"} for number in range(20)]
    expected = mortal_java.open(alone, CONFIG).report(queries)["indexQueries"]
    assert all(query["phyOffsets"] for query in expected)
    theirs = mortal_java.open(root, CONFIG)

    assert theirs.opened["abortFilePresent"]
    found = theirs.report(queries)
    assert expected == found["indexQueries"]
    assert 20 + turns == len(found["records"])
    theirs.close()
    with Store(root) as ours:
        ours.log.append(writer.message(turns))
    assert not (root / "abort").exists()
