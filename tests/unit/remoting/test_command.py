"""
A command holds what a frame can say.
"""

from __future__ import annotations

from typing import Any

import pytest

from pystore.errors import InvalidError
from pystore.remoting.command import RemotingCommand


@pytest.mark.parametrize("name", ["code", "opaque", "flag", "version"])
@pytest.mark.parametrize("number", [1 << 31, -(1 << 31) - 1])
def test_a_number_beyond_32_bits_is_refused(name: str, number: int) -> None:
    """
    It would arrive as another one.
    """
    numbers: dict[str, Any] = {"code": 1, name: number}

    with pytest.raises(
        InvalidError, match=f"the {name} of a command is outside 32 bits"
    ):
        RemotingCommand(**numbers)


def test_other_bits_of_the_flag_mean_nothing() -> None:
    """
    Later versions may use them.
    """
    command = RemotingCommand(1, flag=-4)

    assert not command.is_response
    assert not command.is_one_way
