"""
RocketMQ's slave follows a pystore master through restarts, kills and cuts.

docs/replication.md lists by rule what such a slave and a Java master can still lose;
these tests leave out nothing else.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from interop.java_slave import PATIENCE_S, QUEUE_FILE_BYTES, JavaSlave
from interop.jvm import Json, StoreTool
from interop.record_lines import written_bytes
from lib.ha.master_fixture import EPOCH, MasterStage
from lib.store.stores import SEGMENT, fill

from pystore.errors import UnavailableError
from pystore.fs.layout import EPOCH_FILE
from pystore.ha.insync.ack import Ack, AckOutcome
from pystore.ha.insync.config import SetRules
from pystore.message.message import Message
from pystore.replicaset import AgreedSet, Member
from pystore.store.commit_log import CommitLog
from pystore.store.store import Store

WAIT_MS = PATIENCE_S * 1000
SLAVE_LEFT_OUT = {
    "RMQ-R142": "no cut reaches below the first epoch",
    "RMQ-R143": "no power is cut: SIGKILL leaves the written bytes",
    "RMQ-R144": "no test kills a slave between an epoch and its first byte",
    "RMQ-R164": "no slave follows two masters at once",
    "RMQ-R167": "only its own test kills a slave above stale bytes",
    "RMQ-R168": "there are no consumers",
    "RMQ-R169": "there are only topics of the log",
    "RMQ-R181": "as RMQ-R144",
    "RMQ-R182": "no disk is full on the Java side",
    "RMQ-R183": "as RMQ-R143, and `all-synced` is refused",
    "RMQ-R199": "there is one set",
}
MASTER_LEFT_OUT = {
    "RMQ-R99": "our slave is a learner, not a member",
    "RMQ-R120": "there are no consumers",
    "RMQ-R128": "there are no other members",
    "RMQ-R129": "as RMQ-R128",
    "RMQ-R137": "messages are sent under every epoch",
    "RMQ-R152": "the controller sees the master die, and gives it a new epoch",
    "RMQ-R159": "links end with their master",
    "RMQ-R191": "epochs are compared with the master's file, not with labels",
    "RMQ-R203": "no append requires acks of replicas",
    "RMQ-R208": "as RMQ-R203",
    "RMQ-R215": "as RMQ-R203",
    "RMQ-R216": "as RMQ-R203",
    "RMQ-R217": "as RMQ-R203",
}
DOCS = Path(__file__).parents[2] / "docs" / "replication.md"
PATIENT = SetRules(lag_ms_max=10 * WAIT_MS)


@pytest.fixture
def slave(compiled_tool: None, tmp_path: Path) -> Iterator[JavaSlave]:  # noqa: ARG001
    """
    A slave that does not yet have a master.
    """
    with StoreTool(answer_timeout_s=PATIENCE_S + 60) as tool:
        yield JavaSlave(tool, tmp_path / "slave")


def master_of(root: Path, *broker_ids: int, epoch: int = EPOCH, port: int = 0) -> Any:
    """
    Runs a master, broker 1, in a set of these members.
    """
    members = frozenset(Member(one) for one in (1, *broker_ids))
    return MasterStage(
        root,
        # A slave without new data gets confirm offsets with heartbeats.
        {"epoch": epoch, "heartbeat_ms": 200},
        agreed=AgreedSet(members, 1),
        rules=PATIENT,
        ask=None,
        port=port,
    )


def append(stage: MasterStage, count: int, first: int = 0) -> int:
    """
    Appends messages and returns the end of the log.
    """
    fill(stage.log, count, first)
    return end_of(stage)


def end_of(stage: MasterStage) -> int:
    """
    Returns the end of the master's log.
    """
    return stage.log.writer.log.ends().published_end


def confirm_of(stage: MasterStage) -> int:
    """
    Returns the master's confirm offset.
    """
    return stage.log.writer.log.ends().confirm_offset


def begin(root: Path, epoch: int) -> None:
    """
    Begins the epoch of a new master before it serves slaves.
    """
    with CommitLog(root) as log:
        log.begin_epoch(epoch)


def pairs_of(stage: MasterStage) -> list[list[int]]:
    """
    Returns the epochs of the master.
    """
    return [list(pair) for pair in stage.log.epochs.pairs()]


def messages_by_queue(report: Json) -> dict[str, list[tuple[int, str]]]:
    """
    Returns for each queue the log offsets and digests that a consumer gets.
    """
    records = {line["offset"]: line["recordSha256"] for line in report["records"]}
    return {
        name: [(offset, records[offset]) for offset, _, _ in queue["entries"]]
        for name, queue in report["consumeQueues"].items()
    }


def assert_equal(master: Path, slave: JavaSlave, count: int) -> None:
    """
    Checks after both were closed: bytes, epochs and queues are equal, and pystore reads
    the store of the slave.
    """
    # A master serves only its log; the queues are built when a store opens.
    with Store(master, queue_file_bytes=QUEUE_FILE_BYTES):
        pass
    for folder in ("commitlog", "consumequeue"):
        ours, theirs = (written_bytes(root / folder) for root in (master, slave.root))
        assert ours.keys() == theirs.keys()
        for name, content in ours.items():
            assert content == theirs[name], name
    assert (master / EPOCH_FILE).read_bytes() == (slave.root / EPOCH_FILE).read_bytes()
    with CommitLog(slave.root, mode="r") as log:
        assert count == sum(len(rows) for rows in log.scan())


def test_a_java_slave_acks_and_holds_what_its_master_appends(
    slave: JavaSlave, tmp_path: Path
) -> None:
    """
    The master's confirm offset waits for it and moves with its acks. `all` reports that
    the slave guarantees less; `all-synced`, which it cannot guarantee, is refused.
    """
    with master_of(tmp_path / "master", 2) as stage:
        end = append(stage, 1000)
        assert 0 == confirm_of(stage)
        slave.follow(stage.service.address, EPOCH)
        settled = stage.service.wait(Ack.ALL, end, WAIT_MS)
        assert AckOutcome.REACHED is settled.outcome
        assert ({1, 2}, "all (legacy)") == (settled.received_by, settled.promise)
        assert end == confirm_of(stage)

        end = append(stage, 500, first=1000)
        assert AckOutcome.REACHED is stage.service.wait(Ack.ALL, end, WAIT_MS).outcome
        with pytest.raises(UnavailableError, match="legacy"):
            stage.service.submit(Message("Topic", b"refused"), Ack.ALL_SYNCED)

        standing = slave.wait_for(end)
        assert ("TRANSFER", pairs_of(stage)) == (standing["state"], standing["entries"])
        report = slave.report()
        assert (end, 1500) == (report["maxPhyOffset"], report["recordCount"])
        queues = messages_by_queue(report)
        assert {f"Topic/{number}" for number in range(3)} == queues.keys()
        assert 1500 == sum(map(len, queues.values()))
        for name, entries in queues.items():
            queue_id = int(name.rpartition("/")[2])
            for position, (offset, _) in enumerate(entries):
                record = stage.log.read(offset)
                assert (queue_id, position) == (record.queue_id, record.queue_offset)
        slave.close()
    assert_equal(tmp_path / "master", slave, 1500)


def test_a_java_slave_follows_its_master_through_restarts_and_kills(
    slave: JavaSlave, tmp_path: Path
) -> None:
    """
    The master restarts at its port with a new epoch, and the slave finds it. Then the
    slave is killed while it receives bytes, and the epoch changes again before it
    restarts. It knows every epoch, and reports them after one more start.
    """
    root = tmp_path / "master"
    with master_of(root, 2) as stage:
        slave.follow(stage.service.address, EPOCH)
        slave.wait_for(append(stage, 700))
        port = stage.service.address[1]
    begin(root, EPOCH + 1)
    with master_of(root, 2, epoch=EPOCH + 1, port=port) as stage:
        end = append(stage, 300, first=700)
        assert pairs_of(stage) == slave.wait_for(end)["entries"]
        append(stage, 2000, first=1000)
        slave.kill()
    begin(root, EPOCH + 2)
    with master_of(root, 2, epoch=EPOCH + 2) as stage:
        end = append(stage, 1000, first=3000)
        slave.follow(stage.service.address, EPOCH + 2)
        assert AckOutcome.REACHED is stage.service.wait(Ack.ALL, end, WAIT_MS).outcome
        assert pairs_of(stage) == slave.wait_for(end)["entries"]
        slave.kill()
        report = slave.report()
        assert (end, 4000) == (report["maxPhyOffset"], report["recordCount"])
        assert pairs_of(stage) == slave.epoch_file()
        slave.halt()
    assert_equal(root, slave, 4000)


def test_a_java_slave_cuts_records_that_the_new_master_does_not_have(
    slave: JavaSlave, tmp_path: Path
) -> None:
    """
    The member that is elected next did not receive the tail of the slave: the tail was
    not acknowledged, and it is cut.
    """
    old, new = tmp_path / "old", tmp_path / "new"
    with master_of(old, 2, 3) as stage:
        common = append(stage, 1000)
        stage.log.sync()
    shutil.copytree(old, new)
    with master_of(old, 2, 3) as stage:
        slave.follow(stage.service.address, EPOCH)
        end = append(stage, 800, first=5000)
        settled = stage.service.wait(Ack.ALL, end, 1)
        assert AckOutcome.TIMED_OUT is settled.outcome
        slave.wait_for(end, confirm_of(stage))
        assert confirm_of(stage) <= common
    begin(new, EPOCH + 1)
    with master_of(new, 2, epoch=EPOCH + 1) as stage:
        slave.follow(stage.service.address, EPOCH + 1)
        # Less than the cut bytes: a slave that only appended would be noticed.
        end = append(stage, 200, first=1000)
        assert AckOutcome.REACHED is stage.service.wait(Ack.ALL, end, WAIT_MS).outcome
        assert common < end
        assert [[EPOCH, 0], [EPOCH + 1, common]] == slave.wait_for(end)["entries"]
        assert 1200 == slave.report()["recordCount"]
        # A killed slave leaves an allocated segment after the hole of the cut ones;
        # RocketMQ opens the store, pystore reports the missing segment.
        slave.close()
    assert_equal(new, slave, 1200)
    assert SEGMENT < common


def test_a_killed_java_slave_keeps_the_records_it_had_cut(
    slave: JavaSlave, tmp_path: Path
) -> None:
    """
    RMQ-R167 as it is today: the cut moved positions, the bytes stayed, and a restart
    reads them as records. The master has continued, so they look like its own.

    If this test fails, RocketMQ cuts the bytes: then remove the rule.
    """
    old, new = tmp_path / "old", tmp_path / "new"
    with master_of(old, 2, 3) as stage:
        append(stage, 1000)
        stage.log.sync()
    shutil.copytree(old, new)
    with master_of(old, 2, 3) as stage:
        slave.follow(stage.service.address, EPOCH)
        end_before = append(stage, 100, first=5000)
        slave.wait_for(end_before, confirm_of(stage))
    begin(new, EPOCH + 1)
    with master_of(new, 2, epoch=EPOCH + 1) as stage:
        address = stage.service.address
        slave.follow(address, EPOCH + 1)
        end_cut = append(stage, 20, first=1000)
        slave.wait_for(end_cut)
        slave.kill()
        assert end_before == slave.report()["maxPhyOffset"] > end_cut
        end = append(stage, 20, first=2000)
        slave.follow(address, EPOCH + 1)
        slave.wait_for(end)
        found = {
            line["offset"]: line["bodySha256"] for line in slave.report()["records"]
        }
        differing = [
            offset
            for offset, digest in found.items()
            if digest != sha256(stage.log.read(offset).body).hexdigest()
        ]
        assert (20, end_cut) == (len(differing), min(differing))


@pytest.mark.parametrize(
    ("title", "left_out"),
    [
        ("A Java slave of a pystore master:", SLAVE_LEFT_OUT),
        ("A Java master of a pystore slave:", MASTER_LEFT_OUT),
    ],
)
def test_the_rules_left_out_here_are_those_of_the_docs(
    title: str, left_out: dict[str, str]
) -> None:
    """
    Rule by rule: neither list has a rule that the other lacks.
    """
    table = DOCS.read_text().split(title)[1].split("\n\n")[1]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    assert set(left_out) == set(re.findall(r"RMQ-R\d+", "".join(cells)))
