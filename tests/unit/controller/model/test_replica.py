"""
What a standing means.
"""

from __future__ import annotations

import pytest

from pystore.controller.model.replica import Replica, Standing


@pytest.mark.parametrize("standing", Standing)
def test_only_a_sound_voter_is_eligible(standing: Standing) -> None:
    """B2: and a learner never is."""
    is_sound = standing is Standing.SOUND

    assert is_sound == Replica(1, "", "", standing=standing).is_eligible
    assert not Replica(1, "", "", standing=standing, is_learner=True).is_eligible


def test_an_operator_has_to_vouch_for_foreign_stores() -> None:
    """B1: what a master cannot know it may not admit."""
    vouched = {standing for standing in Standing if standing.needs_operator}

    assert {Standing.COPIED, Standing.WIPED} == vouched
