"""
Without the core: the same rows, and the same words for every damage.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from golden_data import VARIANTS, GoldenStore, apply_patch
from spark_reading import read

from pystore.errors import PystoreError
from pystore.spark import reading
from pystore.spark.decoder import PlainSegment


@pytest.mark.parametrize(
    ("store", "damage"),
    VARIANTS,
    ids=[f"{store.name}-{number}" for number, (store, _) in enumerate(VARIANTS)],
)
def test_every_damage_is_told_alike_with_the_core_and_without(
    store: GoldenStore,
    damage: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    The same rows, the same ranges, the same words; or the same refusal.
    """
    root = store.extract(tmp_path)
    apply_patch(root, damage["patch"])

    def told() -> list[dict[str, Any]] | str:
        try:
            return read(root, on_damage="report")
        except PystoreError as error:
            return str(error)

    with_core = told()
    monkeypatch.setattr(reading, "_open", PlainSegment)
    assert with_core == told()
