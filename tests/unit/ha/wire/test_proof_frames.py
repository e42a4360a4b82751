"""
Frames with proofs: their lengths. Their bytes are in `tests/unit/ha/wire/test_v3.py`.
"""

from __future__ import annotations

import pytest

from pystore.errors import InvalidError
from pystore.ha.wire.frames import Body, Challenge, Frame, LinkProof
from pystore.ha.wire.v3 import encode


@pytest.mark.parametrize(
    "body",
    [
        Challenge(1, bytes(15), bytes(32)),
        Challenge(1, bytes(16), bytes(31)),
        LinkProof(1, bytes(33)),
        LinkProof(1, b""),
    ],
)
def test_random_bytes_and_proofs_have_one_length(body: Body) -> None:
    """No other is sent."""
    with pytest.raises(InvalidError, match=r"16 bytes and a proof 32|a proof has 32"):
        encode(Frame(1, 0, body))
