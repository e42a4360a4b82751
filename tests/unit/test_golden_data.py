"""
The golden data can be read, whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lib.oracle.golden_data import VARIANTS, GoldenStore, apply_patch


def test_an_extracted_store_has_the_files_that_java_saw_before_load(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    Unpacking loses no file and no byte of length.
    """
    found = {
        path.relative_to(golden_root).as_posix(): path.stat().st_size
        for path in golden_root.rglob("*")
        if path.is_file()
    }

    assert _flat(golden_store.expected["filesBefore"]) == found


def test_the_records_of_a_store_are_as_many_as_java_counted(
    golden_store: GoldenStore,
) -> None:
    """
    The record lines and the summary are of one and the same run.
    """
    assert golden_store.expected["recordCount"] == len(golden_store.records)


@pytest.mark.parametrize(
    ("store", "damage"),
    VARIANTS,
    ids=[f"{store.name}-{damage['variant']}" for store, damage in VARIANTS],
)
def test_a_patch_makes_the_changes_it_lists(
    store: GoldenStore, damage: dict[str, Any], tmp_path: Path
) -> None:
    """
    Each step of a patch is visible in the files afterwards.
    """
    root = store.extract(tmp_path)

    apply_patch(root, damage["patch"])

    assert [] == [step for step in damage["patch"] if not _is_done(root, step)]


def _is_done(root: Path, step: dict[str, Any]) -> bool:
    path: Path = root / step["file"]
    if step["op"] == "delete":
        return not path.exists()
    data = path.read_bytes()
    at: int = step.get("at", 0)
    length: int = step.get("length", 0)
    if step["op"] == "truncate":
        return len(data) == length
    wanted = bytes(length) or bytes.fromhex(step["hex"])
    return data[at : at + len(wanted)] == wanted


def _flat(tree: dict[str, Any], above: str = "") -> dict[str, int]:
    files = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            files.update(_flat(value, f"{above}{name}/"))
        else:
            files[above + name] = value
    return files
