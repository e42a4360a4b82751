"""
What a change of roles asks for is a value.
"""

from __future__ import annotations

import dataclasses
from typing import get_args

from pystore.ha.role import Follow, Resign, RoleEffect


def test_effects_are_frozen_values() -> None:
    """
    The owner reports a carried-out effect by its value.
    """
    assert Resign(3, "late") == Resign(3, "late")
    assert Follow("a:1", 3) != Follow("a:1", 4)
    for kind in get_args(RoleEffect):
        assert dataclasses.fields(kind) is not None
        assert kind.__dataclass_params__.frozen
