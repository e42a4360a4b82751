"""
Three stores of one log are damaged and repaired while their brokers serve; then both
verify commands and RocketMQ say that they are equal and whole.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from interop.java_consumer import consumed
from interop.jvm import StoreTool
from interop.logs import records_of
from interop.mended_brokers import ACTIONS, KINDS, QUEUE_FILE_BYTES, MendedBrokers
from interop.messages import CONFIG
from interop.rig import Rig, free_ports
from lib.command_line import run, run_json, run_process
from lib.mended_set import SEGMENT, TOPIC

from pystore.store.store import Store

OURS = CONFIG | {
    "mappedFileSizeCommitLog": str(SEGMENT),
    "mappedFileSizeConsumeQueue": str(QUEUE_FILE_BYTES),
}
NAMES = ("one", "two", "three")


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> MendedBrokers:
    """
    The three stores, repaired and closed.
    """
    made = MendedBrokers(tmp_path_factory.mktemp("mended"))
    made.run()
    return made


@pytest.fixture(params=NAMES)
def store(brokers: MendedBrokers, request: pytest.FixtureRequest) -> Path:
    """
    One of them.
    """
    return brokers.folder / str(request.param)


def copied(store: Path, root: Path) -> Path:
    """
    RocketMQ writes to what it opens.
    """
    shutil.copytree(store, root)
    return root


@pytest.mark.parametrize("kind", KINDS)
def test_each_damage_is_mended_while_a_writer_appends_and_a_consumer_reads(
    brokers: MendedBrokers, kind: str
) -> None:
    """
    The command does all of it; no append is refused, no read fails. Then the broker
    serves every acknowledged record at its number.
    """
    found = brokers.repairs[kind]
    _, _, segment = KINDS[kind]
    assert ([], []) == (found.errors, found.unmended)
    assert all(one["isDone"] for one in found.steps)
    assert {ACTIONS[kind]} == {one["action"] for one in found.steps}
    assert segment * SEGMENT == found.steps[-1]["segment"]
    assert found.served == brokers.bodies[: len(found.served)]


def test_verify_finds_every_record_with_its_entry(store: Path) -> None:
    """
    Of each store; and as many entries as acknowledged records.
    """
    (found,) = run_json("verify", store)["stores"]
    assert ("whole", 0) == (found["verdict"], found["missingEntries"])
    assert found["records"] == found["queueEntries"]


@pytest.mark.parametrize("other", NAMES[1:])
def test_the_logs_are_equal_byte_by_byte(brokers: MendedBrokers, other: str) -> None:
    """
    From their first to their last record.
    """
    with Store(brokers.folder / other, mode="r") as opened:
        assert 0 == opened.log.min_offset
    done = run("compare", brokers.folder / "one", brokers.folder / other)
    assert 0 == done.exit_code, done.output


def test_spark_finds_every_copy_equal_and_every_record_with_its_entry(
    brokers: MendedBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It compares all three block by block, and each queue with its log.
    """
    if shutil.which("java") is None:
        pytest.skip("needs Java 17 or 21")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    words = ("spark", "verify", "--master", "local[2]", "--replicas", "all", "--json")
    done = run_process(*words, *brokers.stores)
    assert 0 == done.returncode, done.stderr.decode()[-2000:]
    found = json.loads(done.stdout)
    assert len(brokers.stores) == len(found["stores"])
    assert ["OK"] == list(found["verdicts"]), found
    assert [] == found["findings"]
    assert len(brokers.stores) * len(brokers.bodies) == found["records"]


def test_rocketmq_finds_the_records_and_queues_that_pystore_has(
    java: StoreTool, store: Path, tmp_path: Path
) -> None:
    """
    Its own classes open the store.
    """
    root = copied(store, tmp_path / "store")
    with Store(store, mode="r") as ours:
        end = ours.log.end_offset
        lines = [record.as_dict() for record in records_of(ours.log.reader)]
    after = java.open(root, OURS)
    assert after.opened["loadOk"], after.opened
    assert end == after.opened["maxPhyOffset"]
    report = after.report()
    after.close()
    assert [one["recordSha256"] for one in lines] == [
        one["recordSha256"] for one in report["records"]
    ]
    queue = report["consumeQueues"][f"{TOPIC}/0"]
    assert (0, len(lines)) == (queue["minOffset"], queue["maxOffset"])


def test_a_broker_of_rocketmq_serves_every_record_to_its_consumer(
    compiled_tool: None,  # noqa: ARG001
    brokers: MendedBrokers,
    store: Path,
    tmp_path: Path,
) -> None:
    """
    A broker process is started on the repaired store; the consumer pulls each queue
    from its first offset on.
    """
    root = copied(store, tmp_path / "broker" / "store")
    assert brokers.bodies == served_by_rocketmq(tmp_path, root)


def served_by_rocketmq(folder: Path, root: Path) -> list[str]:
    """
    Returns the records of the topic, in the order of their queue offsets.
    """
    (root / "config").mkdir(exist_ok=True)
    topic = {
        "topicName": TOPIC,
        "readQueueNums": 1,
        "writeQueueNums": 1,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }
    (root / "config" / "topics.json").write_text(
        json.dumps({"topicConfigTable": {TOPIC: topic}, "dataVersion": {"counter": 1}})
    )
    rig, first = Rig(folder), free_ports()
    address = f"127.0.0.1:{first}"
    words = ("--namesrv", address, "--segment", str(SEGMENT))
    try:
        rig.start("namesrv", first)
        rig.start("broker", first + 12, *words)
        served = consumed(address, {TOPIC: 1})[f"{TOPIC}/0"]
    finally:
        rig.stop()
    return [one.decode() for one in served]
