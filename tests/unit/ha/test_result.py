"""
What a replica answers to an append.
"""

from __future__ import annotations

import pytest

from pystore.core.results import Appended
from pystore.ha.insync.ack import Ack, AckOutcome, AckResult
from pystore.ha.result import AppendResult


@pytest.mark.parametrize("outcome", AckOutcome)
def test_a_promise_is_kept_only_if_it_was_reached(outcome: AckOutcome) -> None:
    """
    A record that is in the log may be gone after the next election.
    """
    settled = AckResult(
        Ack.ALL, 100, outcome, frozenset({1}), frozenset(), is_legacy=False
    )
    result = AppendResult(Appended(0, 100, 0, 1, 1), settled)

    assert result.is_reached == (outcome is AckOutcome.REACHED)
