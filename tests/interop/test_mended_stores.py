"""
RocketMQ takes a store that was repaired from another copy, and its own stopped stores
are repaired and give their segments to others.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from interop.java_consumer import consumed
from interop.jvm import StoreTool
from interop.logs import records_of
from interop.messages import CONFIG
from interop.rig import Rig, free_ports
from lib.command_line import overwrite, run, segment_file
from lib.store.late import follow_from
from lib.store.pairs import SEGMENT, fill, seal

from pystore.segments.mending import mend_closed
from pystore.segments.peer_copy import PeerCopy
from pystore.segments.peer_server import SegmentServer
from pystore.segments.store_copy import StoreCopy
from pystore.store.store import Store
from pystore.verify import verify_store

OURS = CONFIG | {
    "mappedFileSizeCommitLog": str(SEGMENT),
    "mappedFileSizeConsumeQueue": "8000",
}


def check_opened(java: StoreTool, root: Path) -> None:
    """
    Checks that RocketMQ finds the end, the records and the queues that pystore has.
    """
    with Store(root) as ours:
        end = ours.log.end_offset
        lines = [record.as_dict() for record in records_of(ours.log.reader)]
        lengths = {
            f"{queue.topic}/{queue.queue_id}": queue.max_index for queue in ours.queues
        }
    after = java.open(root, OURS)
    assert after.opened["loadOk"], after.opened
    report = after.report()
    after.close()
    assert end == after.opened["maxPhyOffset"]
    assert [line["recordSha256"] for line in lines] == [
        line["recordSha256"] for line in report["records"]
    ]
    assert lengths == {
        name: queue["maxOffset"] for name, queue in report["consumeQueues"].items()
    }


def damage(root: Path, size: int = SEGMENT) -> None:
    """
    A bad block and a missing file.
    """
    overwrite(segment_file(root, 0), 700, b"????")
    segment_file(root, size).unlink()


def test_rocketmq_reads_every_record_of_a_repaired_store(
    java: StoreTool, tmp_path: Path
) -> None:
    """
    Its log began late; blocks, a file and what was below it came from another copy.
    """
    good, late = tmp_path / "good", tmp_path / "late"
    fill(good, 900)
    seal(good)
    follow_from(good, late, 2 * SEGMENT)
    overwrite(segment_file(late, 3 * SEGMENT), 700, b"????")
    segment_file(late, 4 * SEGMENT).unlink()
    done = mend_closed(late, [StoreCopy(good)], tmp_path / "kept")
    assert [3, 4, 1, 0] == [one.base // SEGMENT for one in done.done]
    check_opened(java, late)


@pytest.mark.parametrize("is_served", [False, True], ids=["directory", "peer"])
def test_a_stopped_store_of_rocketmq_is_repaired_and_opened_by_it(
    java: StoreTool, tmp_path: Path, *, is_served: bool
) -> None:
    """
    From a copy that RocketMQ wrote as well: without seals each record proves itself.
    """
    good, bad = tmp_path / "good", tmp_path / "bad"
    fill(good, 900)
    tool = java.open(good, OURS)
    assert tool.opened["loadOk"]
    tool.close()
    shutil.rmtree(good / "meta")
    shutil.copytree(good, bad)
    damage(bad)
    if is_served:
        with (
            SegmentServer(good, "127.0.0.1") as server,
            closing(PeerCopy(server.address)) as peer,
        ):
            done = mend_closed(bad, [peer], tmp_path / "kept")
    else:
        done = mend_closed(bad, [StoreCopy(good)], tmp_path / "kept")
    assert [0, 1] == [one.base // SEGMENT for one in done.done]
    assert "whole" == verify_store(bad).verdict
    for path in sorted((good / "commitlog").iterdir()):
        assert path.read_bytes() == (bad / "commitlog" / path.name).read_bytes()
    after = java.open(bad, OURS)
    assert after.opened["loadOk"], after.opened
    assert tool.opened["maxPhyOffset"] == after.opened["maxPhyOffset"]
    after.close()


@pytest.fixture
def two(java: StoreTool, tmp_path: Path) -> tuple[Path, Path]:
    """
    Two equal stores that RocketMQ wrote and closed.
    """
    one, other = tmp_path / "one", tmp_path / "other"
    fill(one, 900)
    tool = java.open(one, OURS)
    assert tool.opened["loadOk"]
    tool.close()
    shutil.rmtree(one / "meta")
    shutil.copytree(one, other)
    return one, other


@pytest.mark.parametrize("has_meta", [False, True])
def test_a_running_rocketmq_is_no_source_and_no_voter_of_a_repair(
    java: StoreTool, two: tuple[Path, Path], *, has_meta: bool
) -> None:
    """
    What it holds may still be cut; neither by its directory nor by a peer. Stopped, it
    is one, also if pystore had the store before it.
    """
    source, damaged = two
    if has_meta:
        with Store(source):
            pass
    damage(damaged)
    running = java.open(source, OURS)
    words = ("recovery", "mend", damaged, "--from", source)
    for refused in (
        run(*words),
        run(*words, "--dry-run"),
        run("recovery", "serve", source),
    ):
        assert 3 == refused.exit_code, refused.output
        assert (
            f"a broker of RocketMQ (process {java.pid}) has it open" in refused.stderr
        )
    assert not segment_file(damaged, SEGMENT).exists()
    running.close()
    done = run(*words)
    assert 0 == done.exit_code, done.output
    assert "whole" == verify_store(damaged).verdict


def test_a_running_rocketmq_is_no_target_of_a_repair(
    java: StoreTool, two: tuple[Path, Path]
) -> None:
    """
    It would serve its old mapping; nothing is changed.
    """
    source, target = two
    running = java.open(target, OURS)
    damage(target)
    before = segment_file(target, 0).read_bytes()
    words = ("recovery", "mend", target, "--from", source)
    refused = run(*words)
    assert 3 == refused.exit_code, refused.output
    assert str(java.pid) in refused.stderr
    assert before == segment_file(target, 0).read_bytes()
    assert not segment_file(target, SEGMENT).exists()
    running.close()


def test_a_broker_of_rocketmq_serves_its_own_store_after_a_repair(
    compiled_tool: None,  # noqa: ARG001
    tmp_path: Path,
) -> None:
    """
    It wrote the store, and was stopped; a bit rots and a file vanishes. Repaired from a
    copy, it is opened by the same broker, whose consumer gets every record.
    """
    rig, first = Rig(tmp_path), free_ports()
    names = f"127.0.0.1:{first}"
    broker, store, copy = tmp_path / "broker", tmp_path / "broker/store", tmp_path / "c"
    count = 3000
    try:
        rig.start("namesrv", first)
        rig.start("broker", first + 12, "--namesrv", names)
        words = (f"namesrv={names}", f"count={count}", "size=1000", "retry=1", "quiet")
        rig.run("produce", *words)
        rig.run("stop", broker)
        shutil.copytree(store, copy)
        damage(store, 1 << 20)
        done = run("recovery", "mend", store, "--from", copy)
        assert 0 == done.exit_code, done.output
        rig.run("restart", broker)
        served = consumed(names, {"RigTopic": 4})
    finally:
        rig.stop()
    numbers = [int(one.split()[0]) for queue in served.values() for one in queue]
    assert list(range(count)) == sorted(numbers)
    for path in sorted((copy / "commitlog").iterdir())[:2]:
        assert path.read_bytes() == (store / "commitlog" / path.name).read_bytes()
