"""
A property CRC that differs is judged by the neighbours of its record.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pystore.bindings.row import RECORD_DTYPE, Proof
from pystore.damage.copied_crc import CopiedCrcCheck

PROOFS = {"P": Proof.PROPERTY | Proof.HAS_PROPERTY, "-": 0, "d": Proof.DIFFERS}


def _rows(kinds: str, first: int = 0) -> NDArray[Any]:
    rows = np.zeros(len(kinds), RECORD_DTYPE)
    rows["offset"] = np.arange(first, first + len(kinds)) * 100
    rows["size"] = 100
    rows["proof"] = [PROOFS[kind] for kind in kinds]
    return rows


def _found(*batches: str) -> list[int]:
    check, found, first = CopiedCrcCheck(), [], 0
    for batch in batches:
        found += check.add(_rows(batch, first))
        first += len(batch)
    return sorted(offset // 100 for offset, _ in found + check.finish())


@pytest.mark.parametrize(
    ("kinds", "damaged"),
    [
        ("PPdPP", [2]),
        ("PPddPP", [2, 3]),
        ("dPP", [0]),
        ("PPd", [2]),
        ("--d--", []),
        ("PPd--", []),
        ("--dPP", []),
        ("ddd", []),
        ("d", []),
        ("PdP-d-", [1]),
    ],
)
def test_a_record_between_proved_ones_is_damaged(
    kinds: str, damaged: list[int]
) -> None:
    """
    P: the CRC holds; -: the record has none; d: it differs.
    """
    assert damaged == _found(kinds)


@pytest.mark.parametrize("seed", range(50))
def test_the_batches_of_a_scan_do_not_matter(seed: int) -> None:
    """
    Also if all records of a batch differ, or a batch is empty.
    """
    chance = random.Random(seed)
    kinds = "".join(chance.choices("PPP-dd", k=40))
    batches, at = [], 0
    while at < len(kinds):
        size = chance.randrange(6)
        batches.append(kinds[at : at + size])
        at += size

    assert _found(kinds) == _found(*batches), seed
