"""
A Java process that many tests share, and one of its own for a crash; ZooKeeper.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop import jvm
from lib.remoting import zookeeper_server
from lib.remoting.zookeeper_server import ZookeeperServer

STORES_MAX = 24

# Processes that live for seconds: the second compiler is no gain for them.
os.environ["RIG_TIERED"] = "1"


@pytest.fixture(scope="session")
def compiled_tool() -> None:
    """
    The jars are there and the tool is compiled.

    Without Java or Maven the tests are skipped, except where ``CI=true``.
    """
    missing = jvm.missing_tools()
    if missing:
        reason = f"not installed: {', '.join(missing)} (JDK 17 and Maven are needed)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    jvm.fetch()


@pytest.fixture(scope="module")
def shared_java(compiled_tool: None) -> Iterator[list[jvm.StoreTool]]:  # noqa: ARG001
    """
    At most one running process, which ``java`` replaces now and then. It ends with the
    file: its stores' threads would take a fifth of a processor from all that follow.
    """
    tools: list[jvm.StoreTool] = []
    yield tools
    for tool in tools:
        tool.halt()


@pytest.fixture
def java(shared_java: list[jvm.StoreTool]) -> jvm.StoreTool:
    """
    A process for any test that does not have to kill it.

    The threads of a store that was left open never rest, so a process with many
    of them makes way for a new one.
    """
    if shared_java and shared_java[0].stores_opened >= STORES_MAX:
        shared_java.pop().halt()
    if not shared_java:
        shared_java.append(jvm.StoreTool())
    return shared_java[0]


@pytest.fixture
def mortal_java(compiled_tool: None) -> Iterator[jvm.StoreTool]:  # noqa: ARG001
    """
    A process of the test's own, to be halted or killed in the middle.
    """
    with jvm.StoreTool() as tool:
        yield tool


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[ZookeeperServer]:
    """
    One server of ZooKeeper.
    """
    if reason := zookeeper_server.missing():
        pytest.skip(reason)
    port = zookeeper_server.free_ports(1)[0]
    server = ZookeeperServer(tmp_path / "zookeeper", port)
    try:
        server.await_mode()
        yield server
    finally:
        server.kill()
