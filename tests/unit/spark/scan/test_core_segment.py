"""
One segment through the core, in parts of any size.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lib.spark.reading import make_store, read

from pystore.spark.scan import task
from pystore.spark.scan.python_segment import PythonSegment


@pytest.mark.parametrize("split_bytes", [1, 1000, 4096, 65536])
@pytest.mark.parametrize("has_core", [True, False])
def test_splits_hold_each_record_once(
    split_bytes: int, has_core: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    For any size and any start of the splits.
    """
    root = make_store(tmp_path)
    if split_bytes == 1:
        options: dict[str, Any] = {
            "split_bytes": 1,
            "from_offset": 65000,
            "to_offset": 66000,
        }
    else:
        options = {"split_bytes": split_bytes}
    whole = [row["offset"] for row in read(root, ["offset"])]
    start, stop = options.get("from_offset", 0), options.get("to_offset", 1 << 60)

    if not has_core:
        monkeypatch.setattr(task, "_open", PythonSegment)
    found = [row["offset"] for row in read(root, ["offset"], **options)]

    assert [offset for offset in whole if start <= offset < stop] == found
