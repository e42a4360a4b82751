"""
The dry run over everything that RocketMQ left and what damage made of it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lib.oracle.golden_data import STORES, VARIANTS, GoldenStore, apply_patch

from pystore.errors import NotAStoreError
from pystore.recovery.dry_run import inspect
from pystore.recovery.rocketmq import RocketmqEvidence

RULES = {"A2", "A6", "A8"}


def _adjusted(store: GoldenStore) -> Any:
    force = store.expected["config"].get("forceVerifyPropCRC") == "true"

    def adjust(opening: RocketmqEvidence) -> RocketmqEvidence:
        return replace(opening, force_property_crc=force)

    return adjust


@pytest.mark.parametrize("store", STORES, ids=lambda store: store.name)
def test_a_store_ends_at_the_end_of_rocketmq_or_below(
    store: GoldenStore, tmp_path: Path
) -> None:
    """
    RocketMQ's own end is found; ours is the same, or stricter with a rule.
    """
    made = inspect(store.extract(tmp_path), _adjusted(store)).plan

    assert store.expected["maxPhyOffset"] == made.rocketmq_end
    assert made.end_offset <= store.expected["maxPhyOffset"]
    assert made.end_offset == store.expected["maxPhyOffset"] or made.rule in RULES


@pytest.mark.parametrize(
    ("store", "damage"),
    VARIANTS,
    ids=[f"{store.name}-{damage['variant']}" for store, damage in VARIANTS],
)
def test_a_damaged_store_ends_at_the_end_of_rocketmq_or_below(
    store: GoldenStore, damage: dict[str, Any], tmp_path: Path
) -> None:
    """
    The same for every damage; pystore refuses each file that RocketMQ refuses.
    """
    root = store.extract(tmp_path)
    apply_patch(root, damage["patch"])
    expected = damage["result"]
    if damage["variant"] == "last-file-short":
        with pytest.raises(NotAStoreError, match="cut short"):
            inspect(root)
        return
    made = inspect(root, _adjusted(store)).plan

    if "maxPhyOffset" in expected:  # else RocketMQ fails after it found its end
        assert expected["maxPhyOffset"] == made.rocketmq_end
    assert made.rocketmq_end is not None
    assert made.end_offset <= made.rocketmq_end
    assert made.end_offset == made.rocketmq_end or made.rule in RULES


def test_a_dry_run_changes_nothing(golden_root: Path) -> None:
    """
    No file of a store is touched, and none is made.
    """
    before = {p: p.stat().st_mtime_ns for p in golden_root.rglob("*")}
    inspect(golden_root)

    assert before == {p: p.stat().st_mtime_ns for p in golden_root.rglob("*")}
