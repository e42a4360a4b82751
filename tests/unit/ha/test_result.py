"""
What a replica answers to an append.
"""

from __future__ import annotations

import pytest

from pystore.core.results import Appended
from pystore.ha.insync.ack import Ack, Outcome, Settled
from pystore.ha.result import AppendResult


@pytest.mark.parametrize("outcome", Outcome)
def test_a_promise_is_kept_only_if_it_was_reached(outcome: Outcome) -> None:
    """
    A record that is in the log may be gone after the next election.
    """
    settled = Settled(
        Ack.ALL, 100, outcome, frozenset({1}), frozenset(), is_legacy=False
    )
    result = AppendResult(Appended(0, 100, 0, 1, 1), settled)

    assert result.is_reached == (outcome is Outcome.REACHED)
