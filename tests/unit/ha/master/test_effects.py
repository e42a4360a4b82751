"""
What a master's connection asks for are values: equal by content, never changed.
"""

from __future__ import annotations

import pytest
from lib.ha.master_bench import ROSTER, TERMS

from pystore.ha.master.effects import CloseLink, MasterProtocol, SendBlock
from pystore.ha.master.protocol_legacy import LegacyMasterProtocol
from pystore.ha.master.protocol_v3 import V3MasterProtocol


def test_an_effect_is_a_value() -> None:
    """Equal content is equal; an effect cannot be changed."""
    block = SendBlock(b"head", 0, 10, 10)

    assert block == SendBlock(b"head", 0, 10, 10, None)
    assert hash(CloseLink("why")) == hash(CloseLink("why"))
    with pytest.raises(AttributeError):
        block.size = 11  # type: ignore[misc]


def test_both_protocols_are_used_alike() -> None:
    """The owner of a link does not know which it is."""
    links: list[MasterProtocol] = [
        V3MasterProtocol(TERMS, lambda: ROSTER, 1, 0),
        LegacyMasterProtocol(TERMS, lambda: ROSTER, 1, 0),
    ]

    assert len({link.state for link in links}) == 1
