"""
The standings of a log.
"""

from __future__ import annotations

import pytest

from pystore.controller.model.replica import LogStanding, RegisteredBroker


@pytest.mark.parametrize("standing", LogStanding)
def test_only_a_sound_voter_is_eligible(standing: LogStanding) -> None:
    """B2: and a learner never is."""
    is_sound = standing is LogStanding.SOUND

    assert is_sound == RegisteredBroker(1, "", "", standing=standing).is_eligible
    assert not RegisteredBroker(
        1, "", "", standing=standing, is_learner=True
    ).is_eligible


def test_an_operator_has_to_vouch_for_foreign_stores() -> None:
    """B1: what a master cannot know it may not admit."""
    vouched = {standing for standing in LogStanding if standing.needs_operator}

    assert {LogStanding.COPIED, LogStanding.WIPED} == vouched
