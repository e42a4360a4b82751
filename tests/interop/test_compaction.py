"""
RocketMQ serves the compaction of pystore: only the latest record of each key.
"""

from __future__ import annotations

import base64
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from interop import jvm
from interop.messages import java_message
from interop.rig import Rig, free_ports
from lib.spark.compaction import CHOICE, LocalJobs, fill, latest

from pystore.message.record import Record
from pystore.spark.compact.run import compact
from pystore.store.store import Store

TOPICS = {f"T{number}": 3 for number in range(3)}
CONFIG = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "2000",
    "maxHashSlotNum": "100",
    "maxIndexNum": "400",
    "enableCompaction": "true",
    # The parts of CHOICE.
    "compactionMappedFileSize": "4000",
    "compactionCqMappedFileSize": "1656",
    # A restarted broker that begins another file knows only that file, and skips the
    # files between it and the first one.
    "searchBcqByCacheEnable": "false",
}


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """
    Returns a store with records of every kind, and its compaction.
    """
    folder = tmp_path_factory.mktemp("compaction")
    store, into = folder / "store", folder / "out"
    with Store(store, segment_size=65536, queue_file_bytes=2000) as opened:
        fill(opened.log.writer.log, random.Random(11), 2500)
    compact(LocalJobs(), store, into, CHOICE)
    return store, into


def lines(queues: dict[str, list[Record]]) -> dict[str, list[tuple[Any, ...]]]:
    """
    Returns the records of each queue as a consumer gets them.
    """
    return {
        name: [(one.queue_offset, one.body, one.keys) for one in records]
        for name, records in queues.items()
    }


def served(answer: dict[str, list[list[Any]]]) -> dict[str, list[tuple[Any, ...]]]:
    """
    Returns the same from the answers of Java.
    """
    return {
        name: [(at, base64.b64decode(body), keys) for at, body, keys, _ in messages]
        for name, messages in answer.items()
    }


def broker_store(folder: Path, compacted: tuple[Path, Path]) -> Path:
    """
    Returns a broker's store: the original log and queues, and the compaction.
    """
    store, into = compacted
    root = folder / "store"
    for name in ("commitlog", "consumequeue"):
        shutil.copytree(store / name, root / name)
    shutil.copytree(into / "compaction", root / "compaction", symlinks=True)
    return root


def serve(root: Path, append: list[Any]) -> dict[str, Any]:
    """
    Returns the records that RocketMQ's store serves at once, after appends, and after
    its own compaction.

    If its compaction replaces a file during a flush, a `.delete` file remains, and the
    store does not load with it.
    """
    for replaced in root.rglob("*.delete"):
        replaced.unlink()
    return jvm.run_once(
        "CompactionTool",
        {
            "do": "serve",
            "root": str(root),
            "config": CONFIG,
            "topics": TOPICS,
            "append": append,
            "compact": True,
        },
    )


@pytest.mark.usefixtures("compiled_tool")
def test_rocketmq_serves_the_latest_records_and_continues_after_them(
    compacted: tuple[Path, Path], tmp_path: Path
) -> None:
    """
    RocketMQ loads the files. New records follow them, its own compaction keeps the
    latest records, and a restart finds them all.
    """
    root = broker_store(tmp_path, compacted)
    new = [
        java_message(
            "T1", b"new %d" % number, queueId=1, properties={"KEYS": f"key {number}"}
        )
        for number in range(40)
    ]

    answer = serve(root, new)

    expected = lines(latest(compacted[0]))
    assert answer["loadOk"]
    assert expected == served(answer["served"])
    last = expected["T1/1"][-1][0]
    appended = served(answer["appended"])
    assert expected["T1/1"] == appended["T1/1"][:-40]
    behind = [(body, keys) for _, body, keys in appended["T1/1"][-40:]]
    assert [(b"new %d" % number, f"key {number}") for number in range(40)] == behind
    assert appended["T1/1"][-40][0] > last
    newest = {keys: (at, body) for at, body, keys in appended["T1/1"]}
    after = served(answer["compacted"])
    assert newest == {keys: (at, body) for at, body, keys in after["T1/1"]}
    again = serve(root, [])
    assert after == served(again["served"])


@pytest.mark.usefixtures("compiled_tool")
def test_each_message_is_at_the_offset_it_contains(
    compacted: tuple[Path, Path],
) -> None:
    """
    RocketMQ's reader finds every record whole, including the property CRC.
    """
    views = sorted((compacted[1] / "compaction" / "logs").glob("*/*"))
    config = {
        "mappedFileSizeCommitLog": str(CHOICE.sizes.log_bytes),
        "forceVerifyPropCRC": "true",
    }
    with jvm.StoreTool() as java:
        for view in views[:3]:
            root = view.parent / f"copy-{view.name}"
            shutil.copytree(view / "commitlog", root / "commitlog")
            report = java.open(root, config).report()
            assert [] == report["badRecords"]
            count = len(latest(compacted[0])[f"{view.parent.name}/{view.name}"])
            assert count == report["recordCount"]
            shutil.rmtree(root)


def test_a_broker_serves_the_latest_records_to_a_consumer(
    compiled_tool: None,  # noqa: ARG001
    compacted: tuple[Path, Path],
    tmp_path: Path,
) -> None:
    """
    The test runs a name server, a broker with compacted topics, and RocketMQ's
    consumer, which begins at the first offset of each queue.
    """
    root = broker_store(tmp_path / "broker", compacted)
    (root / "config").mkdir()
    topics = {
        name: {
            "topicName": name,
            "readQueueNums": queues,
            "writeQueueNums": queues,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
            "attributes": {"cleanup.policy": "COMPACTION"},
        }
        for name, queues in TOPICS.items()
    }
    (root / "config" / "topics.json").write_text(
        json.dumps({"topicConfigTable": topics, "dataVersion": {"counter": 1}})
    )
    rig, first = Rig(tmp_path), free_ports()
    address = f"127.0.0.1:{first}"
    settings = [
        word for key, value in CONFIG.items() for word in ("--set", f"{key}={value}")
    ]

    try:
        rig.start("namesrv", first)
        rig.start("broker", first + 12, "--namesrv", address, *settings)
        answer = jvm.run_once(
            "CompactionTool", {"do": "consume", "namesrv": address, "topics": TOPICS}
        )
    finally:
        rig.stop()

    assert lines(latest(compacted[0])) == served(answer["consumed"])
    assert ["NO_NEW_MSG"] == answer["endedWith"]
