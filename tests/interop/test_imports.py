"""
Changes of RocketMQ in the small files are noticed, imported and reported.
"""

from __future__ import annotations

from pathlib import Path

from interop.jvm import StoreTool
from interop.logs import records_of
from interop.messages import CONFIG, equal_sized, java_message

from pystore.fs.layout import IDENTITY_FILE
from pystore.message.message import Message
from pystore.rocketmq.identity_file import BrokerIdentity, parse_identity
from pystore.store.commit_log import CommitLog

SEGMENT_SIZE = int(CONFIG["mappedFileSizeCommitLog"])
MESSAGES = [Message("T", f"ours{number:04}".encode()) for number in range(10)]


def epochs(java: StoreTool, root: Path, **changes: object) -> list[tuple[int, int]]:
    """
    Lets RocketMQ change the epoch file, and returns its table afterwards.
    """
    answer = java.ask({"do": "epochs", "root": str(root), **changes})
    return [(epoch, start) for epoch, start in answer["entries"]]


def test_an_epoch_that_rocketmq_began_is_imported(
    java: StoreTool, tmp_path: Path
) -> None:
    """
    The table has our entries, RocketMQ's entry at the end that it found, and our next
    one.
    """
    with CommitLog(tmp_path, segment_size=SEGMENT_SIZE) as log:
        log.begin_epoch(1)
        log.append_batch(MESSAGES)
        ours = log.end_offset
    assert [(1, 0)] == epochs(java, tmp_path)

    store = java.open(tmp_path, CONFIG)
    epochs(java, tmp_path, append=[(2, ours)])
    store.append([java_message("T", b"theirs")])
    store.close()

    with CommitLog(tmp_path) as log:
        foreign, taken, theirs = log.recovery.foreign, log.epochs, log.end_offset
        log.begin_epoch(3)
        log.append_batch(MESSAGES)
    assert any(reason.startswith("epochFileCheckpoint") for reason in foreign)
    assert [(1, 0), (2, ours)] == taken.pairs()
    assert [(1, 0), (2, ours), (3, theirs)] == epochs(java, tmp_path)


def test_the_bytes_of_an_epoch_that_rocketmq_cut_are_cut(
    java: StoreTool, tmp_path: Path
) -> None:
    """
    RocketMQ truncates log and table and leaves the bytes, but our log ends there (A10).
    """
    with CommitLog(tmp_path, segment_size=SEGMENT_SIZE) as log:
        log.begin_epoch(1)
        log.append_batch(MESSAGES)
        log.begin_epoch(2)
        start = log.end_offset
        log.append_batch(MESSAGES)

    store = java.open(tmp_path, CONFIG)
    store.truncate(start)
    assert [(1, 0)] == epochs(java, tmp_path, cut=start)
    store.close()
    with CommitLog(tmp_path) as log:
        recovery, table = log.recovery, log.epochs
        lines = [record.as_dict() for record in records_of(log.reader)]
    again = java.open(tmp_path, CONFIG)

    assert recovery.foreign
    assert start == recovery.end_offset
    assert [(1, 0)] == table.pairs()
    assert start == again.opened["maxPhyOffset"]
    assert lines == again.report()["records"]


def test_an_identity_that_rocketmq_wrote_stays(java: StoreTool, tmp_path: Path) -> None:
    """
    It is reported once; from then on it is the identity of the store.
    """
    theirs = BrokerIdentity("DefaultCluster", "broker-a", 7)
    with CommitLog(tmp_path, segment_size=SEGMENT_SIZE) as log:
        log.append_batch(MESSAGES)
    java.ask(
        {
            "do": "identity",
            "root": str(tmp_path),
            "write": [theirs.cluster, theirs.broker, theirs.broker_id],
        }
    )

    with CommitLog(tmp_path) as log:
        first = log.recovery.foreign
    with CommitLog(tmp_path) as log:
        second = log.recovery.foreign

    assert any(reason.startswith(IDENTITY_FILE) for reason in first)
    assert () == second
    assert theirs == parse_identity((tmp_path / IDENTITY_FILE).read_bytes())


def test_a_checkpoint_of_pystore_names_no_time_after_its_last_record(
    java: StoreTool, tmp_path: Path
) -> None:
    """
    So RocketMQ's recovery starts early enough and dispatches the missing entries (A11).
    """
    with CommitLog(tmp_path, segment_size=SEGMENT_SIZE) as log:
        log.append_batch(MESSAGES)
        last_ms = records_of(log.reader)[-1].store_ms

    times = java.ask({"do": "checkpoint", "root": str(tmp_path)})
    report = java.open(tmp_path, CONFIG).report()

    assert times["physicMsgTimestamp"] <= last_ms
    assert times["logicsMsgTimestamp"] <= last_ms
    assert times["indexMsgTimestamp"] <= last_ms
    assert len(MESSAGES) == len(report["consumeQueues"]["T/0"]["entries"])


def test_a_store_of_rocketmq_becomes_a_store_of_both(
    java: StoreTool, tmp_path: Path
) -> None:
    """
    Epochs, identity and records of a store without ``meta/`` are imported.
    """
    store = java.open(tmp_path, CONFIG)
    store.append(equal_sized(10, mark="java"))
    lines = store.report()["records"]
    store.close()
    epochs(java, tmp_path, append=[(1, 0), (4, lines[5]["offset"])])

    with CommitLog(tmp_path) as log:
        recovery, table = log.recovery, log.epochs
        log.append_batch(MESSAGES)
        ours = [record.as_dict() for record in records_of(log.reader)]
    report = java.open(tmp_path, CONFIG).report()

    assert recovery.is_new
    assert 0 == recovery.cut_bytes
    assert [(1, 0), (4, lines[5]["offset"])] == table.pairs()
    assert lines == ours[:10]
    assert list(range(20)) == [line["queueOffset"] for line in ours]
    assert ours == report["records"]
