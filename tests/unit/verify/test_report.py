"""
The verdict follows from the damage and the torn bytes.
"""

from __future__ import annotations

import pytest

from pystore.verify.report import Damage, StoreReport


@pytest.mark.parametrize(
    ("damages", "torn", "verdict"),
    [(0, 0, "whole"), (0, 5, "torn"), (1, 0, "damaged"), (1, 5, "damaged")],
)
def test_damage_outweighs_a_torn_tail(damages: int, torn: int, verdict: str) -> None:
    """
    A torn tail is normal after a crash, damage is not.
    """
    found = [Damage("path", 1, "reason")] * damages

    assert verdict == StoreReport("s", damages=found, torn_bytes=torn).verdict
