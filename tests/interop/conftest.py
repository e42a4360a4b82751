"""
A Java process that many tests share, a separate one for crashes, and ZooKeeper.
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

# The processes live for seconds: the second compiler is no gain for them.
os.environ["RIG_TIERED"] = "1"


@pytest.fixture(scope="session")
def compiled_tool() -> None:
    """
    Fetches the jars and compiles the tool.

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
    Holds at most one running process, which ``java`` replaces from time to time. The
    process ends with the file: the threads of its stores would take a fifth of a
    processor from the later tests.
    """
    tools: list[jvm.StoreTool] = []
    yield tools
    for tool in tools:
        tool.halt()


@pytest.fixture
def java(shared_java: list[jvm.StoreTool]) -> jvm.StoreTool:
    """
    A process for tests that do not kill it.

    The threads of an open store run all the time, so a process with many open stores
    is replaced.
    """
    if shared_java and shared_java[0].stores_opened >= STORES_MAX:
        shared_java.pop().halt()
    if not shared_java:
        shared_java.append(jvm.StoreTool())
    return shared_java[0]


@pytest.fixture
def mortal_java(compiled_tool: None) -> Iterator[jvm.StoreTool]:  # noqa: ARG001
    """
    A process for one test, which may halt or kill it.
    """
    with jvm.StoreTool() as tool:
        yield tool


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[ZookeeperServer]:
    """
    A ZooKeeper server.
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
