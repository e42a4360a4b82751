"""
The Java tool reports the golden data: so tests can compare with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from interop.jvm import StoreTool
from lib.oracle.golden_data import GoldenStore

# The other keys of expected.json describe the run that made the data.
BEFORE = {"store", "config", "filesBefore"}


def test_the_tool_reads_a_golden_store_as_the_golden_data_have_it(
    java: StoreTool, golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    Ends, checkpoint, records, queues and index answers are those of the data.
    """
    expected = {
        key: value for key, value in golden_store.expected.items() if key not in BEFORE
    }

    store = java.open(golden_root, expected_config(golden_store))
    report = store.report(queries=expected["indexQueries"])
    found: dict[str, Any] = report | store.opened

    assert golden_store.records == found.pop("records")
    assert expected == found


def expected_config(store: GoldenStore) -> dict[str, str]:
    """
    Returns the configuration of the store when the data were written.
    """
    config: dict[str, str] = store.expected["config"]
    return config
