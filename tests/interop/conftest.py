"""
One Java process for all tests of this folder, and one of its own for a crash.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from interop import jvm


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


@pytest.fixture(scope="session")
def java(compiled_tool: None) -> Iterator[jvm.StoreTool]:  # noqa: ARG001
    """
    The process that serves every test which does not have to kill it.
    """
    with jvm.StoreTool() as tool:
        yield tool


@pytest.fixture
def mortal_java(compiled_tool: None) -> Iterator[jvm.StoreTool]:  # noqa: ARG001
    """
    A process of the test's own, to be halted or killed in the middle.
    """
    with jvm.StoreTool() as tool:
        yield tool
