"""
Stores of several versions of RocketMQ open, grow, and go back to that version.

``RIG_VERSIONS`` names the versions, or is ``all``.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop import jvm
from interop.jvm import StoreTool
from interop.logs import records_of
from interop.messages import CONFIG, java_batch, java_message

from pystore.message.message import Message
from pystore.rocketmq.checkpoint_file import parse_checkpoint
from pystore.store.store import Store
from pystore.verify.store import verify_store

_CHOSEN = os.environ.get("RIG_VERSIONS", "5.3.3 5.5.0")
CHOSEN = jvm.VERSIONS if _CHOSEN == "all" else tuple(_CHOSEN.split())


@pytest.fixture(scope="module", params=CHOSEN)
def tool(request: pytest.FixtureRequest, compiled_tool: None) -> Iterator[StoreTool]:  # noqa: ARG001
    """
    A Java process with the store classes of one version.
    """
    jvm.fetch(request.param)
    with StoreTool(version=request.param) as tool:
        yield tool


def content() -> list[jvm.Json]:
    """
    Returns messages of each kind that all versions have.
    """
    batch = struct.pack(">5i", 24, 0, 0, 7, 2) + b"ab" + bytes(2)
    plain = [
        java_message(
            f"T{number % 3}",
            b"body %d " % number * (1 + number % 50),
            queueId=number % 2,
            properties={"TAGS": f"t{number % 4}", "KEYS": f"k{number}"},
        )
        for number in range(300)
    ]
    delayed = java_message("SCHEDULE_TOPIC_XXXX", b"late", properties={"DELAY": "3"})
    half = java_message("RMQ_SYS_TRANS_HALF_TOPIC", b"half", sysFlag=0)
    committed = java_message("T0", b"committed", sysFlag=8)
    rolled_back = java_message("T0", b"rolled back", sysFlag=12)
    long_topic = java_message("L" * 140, b"long topic")
    return [
        *plain,
        delayed,
        half,
        committed,
        rolled_back,
        long_topic,
        java_batch("B", 3 * batch),
    ]


@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
def test_a_store_of_each_version_opens_verifies_grows_and_goes_back(
    tool: StoreTool, tmp_path: Path, *, is_killed: bool
) -> None:
    """
    Nothing of it is damage; RocketMQ reads what pystore added, and continues.
    """
    made, root = tmp_path / "made", tmp_path / "store"
    store = tool.open(made, CONFIG)
    store.append(content())
    if not is_killed:
        store.close()
    expected = store.report()["records"] if is_killed else None
    shutil.copytree(made, root)

    before = verify_store(root)
    with Store(root) as ours:
        lines = [each.as_dict(plain=True) for each in records_of(ours.log.reader)]
        for number in range(40):
            ours.log.append(Message("T1", b"ours %d" % number, keys=f"ours{number}"))
        assert 0 == ours.log.recovery.cut_bytes
    after = verify_store(root)
    again = tool.open(root, CONFIG)
    back = again.report([{"topic": "T1", "key": "k1"}])
    again.append([java_message("T1", b"theirs")])
    again.close()
    at_last = verify_store(root)

    assert ([], []) == (before.damages, after.damages)
    assert expected is None or expected == lines
    assert again.opened["loadOk"]
    assert lines == back["records"][: len(lines)]
    assert len(lines) + 40 == len(back["records"])
    assert [] == back["badRecords"]
    assert ("whole", len(lines) + 41) == (at_last.verdict, at_last.records)


def test_the_checkpoint_of_each_version_is_read_and_kept(
    tool: StoreTool, tmp_path: Path
) -> None:
    """
    Version 5.5.0 writes the offset of its last flushed queue entry; older ones do not,
    and pystore leaves the field as zero for them.
    """
    store = tool.open(tmp_path, CONFIG)
    store.append([java_message("T1", b"theirs"), java_message("T1", b"theirs")])
    store.close()
    before = parse_checkpoint((tmp_path / "checkpoint").read_bytes())

    with Store(tmp_path) as ours:
        last = ours.log.append(Message("T1", b"ours")).offset
    after = parse_checkpoint((tmp_path / "checkpoint").read_bytes())

    assert ("", "") == (before.note, after.note)
    is_there = tool.version >= "5.5.0"
    assert is_there == (before.logics_offset > 0)
    assert (last if is_there else 0) == after.logics_offset
