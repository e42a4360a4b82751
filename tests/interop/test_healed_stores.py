"""
RocketMQ takes a store that the doctor healed, also one with filler records.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from interop.jvm import StoreTool
from interop.logs import records_of
from interop.messages import CONFIG
from lib.command_line import overwrite, segment_file
from lib.store.pairs import SEGMENT, fill

from pystore.doctor.apply import heal
from pystore.doctor.filler import FILLER_TOPIC
from pystore.store.store import Store
from pystore.verify import verify_store

SEED = 20
OURS = CONFIG | {
    "mappedFileSizeCommitLog": str(SEGMENT),
    "mappedFileSizeConsumeQueue": "8000",
}


@pytest.mark.parametrize("checks_crc", ["false", "true"])
@pytest.mark.parametrize("has_replica", [True, False], ids=["replica", "fillers"])
def test_rocketmq_reads_every_record_of_a_healed_store(
    java: StoreTool, tmp_path: Path, checks_crc: str, *, has_replica: bool
) -> None:
    """
    Its end, records and queues are those of pystore; no queue has an entry of a filler.
    """
    draw = random.Random(SEED)
    print(f"seed {SEED}")
    copy, root = tmp_path / "copy", tmp_path / "store"
    fill(copy)
    shutil.copytree(copy, root)
    for base in range(0, 3 * SEGMENT, SEGMENT):
        overwrite(segment_file(root, base), draw.randrange(200, SEGMENT - 400), b"????")
    found = len(verify_store(root).damages)
    assert found
    heal(root, [copy] if has_replica else (), accept_loss=True)
    assert "whole" == verify_store(root).verdict

    with Store(root) as ours:
        end = ours.log.end_offset
        lines = [record.as_dict() for record in records_of(ours.log.reader)]
        lengths = {
            f"{queue.topic}/{queue.queue_id}": queue.max_index for queue in ours.queues
        }
    fillers = [line for line in lines if line["topic"] == FILLER_TOPIC]
    after = java.open(root, OURS | {"forceVerifyPropCRC": checks_crc})
    assert after.opened["loadOk"], after.opened
    report = after.report()
    after.close()

    assert (0 if has_replica else found) == len(fillers)
    assert end == after.opened["maxPhyOffset"]
    assert [line["recordSha256"] for line in lines] == [
        line["recordSha256"] for line in report["records"]
    ]
    assert lengths == {
        name: queue["maxOffset"] for name, queue in report["consumeQueues"].items()
    }
