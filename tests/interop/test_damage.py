"""
RocketMQ accepts a damaged store that pystore has recovered.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from interop.jvm import StoreTool
from interop.logs import records_of
from lib.oracle.golden_data import VARIANTS, GoldenStore, apply_patch

from pystore.errors import NotAStoreError
from pystore.store.store import Store

# Controller mode is a setting of brokers, not of stores.
DAMAGES = [
    (store, damage)
    for store, damage in VARIANTS
    if not damage["variant"].startswith("controller-mode")
]


@pytest.mark.parametrize(
    ("store", "damage"),
    DAMAGES,
    ids=[f"{store.name}-{damage['variant']}" for store, damage in DAMAGES],
)
def test_rocketmq_agrees_on_the_end_of_a_store_that_pystore_recovered(
    java: StoreTool, tmp_path: Path, store: GoldenStore, damage: dict[str, Any]
) -> None:
    """
    After pystore has opened and closed it, both programs read the same records to the
    same end. That end is never above the end that RocketMQ alone would find, and the
    queues end where pystore left them.
    """
    root = store.extract(tmp_path)
    apply_patch(root, damage["patch"])
    config = store.expected["config"]
    queue_file_bytes = int(config["mappedFileSizeConsumeQueue"])
    if not damage["result"]["loadOk"]:
        with pytest.raises(NotAStoreError):
            Store(root, accept_loss=True)
        return

    with Store(root, accept_loss=True, queue_file_bytes=queue_file_bytes) as ours:
        end = ours.log.end_offset
        lines = [record.as_dict() for record in records_of(ours.log.reader)]
        queues = {
            f"{queue.topic}/{queue.queue_id}": queue.max_index for queue in ours.queues
        }
    after = java.open(root, config)
    report = after.report()

    assert end <= damage["result"]["maxPhyOffset"]
    assert end == after.opened["maxPhyOffset"]
    assert [line["recordSha256"] for line in lines] == [
        line["recordSha256"] for line in report["records"]
    ]
    assert queues == {
        name: queue["maxOffset"] for name, queue in report["consumeQueues"].items()
    }
