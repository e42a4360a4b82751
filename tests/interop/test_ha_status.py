"""
`pystore ha-status` reads the state of a master of RocketMQ's classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.java_slave import JavaSlave
from interop.jvm import StoreTool
from interop.messages import equal_sized
from lib.command_line import run_json


@pytest.fixture
def broker(compiled_tool: None, tmp_path: Path) -> Iterator[JavaSlave]:  # noqa: ARG001
    """
    A broker that is not yet elected.
    """
    with StoreTool() as tool:
        yield JavaSlave(tool, tmp_path)


def test_a_query_does_not_disturb_a_java_master(broker: JavaSlave) -> None:
    """
    Its epochs are those of its store. The query comes from a learner, so no append
    waits for it: appends continue and are confirmed at once.
    """
    starts = []
    for epoch in (3, 5):
        starts.append(broker.report()["maxPhyOffset"])
        port = broker.lead(epoch)
        broker.append(equal_sized(300, mark=f"{epoch}"))
        found = run_json("ha-status", f"127.0.0.1:{port}", "--protocol", "legacy")
        end = broker.report()["maxPhyOffset"]
        assert (epoch, 0, end, end) == tuple(
            found[key] for key in ("epoch", "minOffset", "endOffset", "confirmOffset")
        )
        ends = [*starts[1:], end]
        assert [
            {"epoch": number, "startOffset": start, "endOffset": border}
            for number, start, border in zip((3, 5), starts, ends, strict=False)
        ] == found["epochs"]


def test_a_java_master_with_an_empty_log_answers(broker: JavaSlave) -> None:
    """
    It answers with a heartbeat.
    """
    port = broker.lead(1)
    found = run_json("ha-status", f"127.0.0.1:{port}", "--protocol", "legacy")
    assert (0, 0, 0) == tuple(
        found[key] for key in ("minOffset", "endOffset", "confirmOffset")
    )
    assert [{"epoch": 1, "startOffset": 0, "endOffset": 0}] == found["epochs"]
