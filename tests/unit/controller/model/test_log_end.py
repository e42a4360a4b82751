"""
Of two logs, which one goes further.
"""

from __future__ import annotations

from pystore.controller.model.log_end import NOWHERE, LogEnd


def test_a_higher_epoch_is_further_than_any_end() -> None:
    """By 64 bits, and what is not known is least."""
    assert NOWHERE < LogEnd(0, 0) < LogEnd(1, 2**62) < LogEnd(2, 0)
