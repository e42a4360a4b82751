"""
Exported records: what comes back, and what is refused.
"""

from __future__ import annotations

import pytest
from lib.controller.broker_set_driver import Brokers, start

from pystore.controller.model.set_export import decode_export, encode_export
from pystore.controller.model.state import SetState
from pystore.errors import FormatError

CLUSTER = "a" * 32


def sets() -> list[SetState]:
    """
    Two sets; the name of one has line breaks of all kinds.
    """
    brokers = Brokers()
    brokers.join(1, start(1))
    brokers.elect(1)
    return [brokers.state, SetState("c\n", "n\u2028\r\x85", version=3, epoch=7)]


@pytest.mark.parametrize("cluster_id", ["", CLUSTER])
def test_an_export_comes_back_as_it_was(cluster_id: str) -> None:
    """
    With or without a UUID; each record is a line.
    """
    raw = encode_export(cluster_id, sets())
    assert (cluster_id, sets()) == decode_export(raw, "FILE")
    assert 3 == raw.count(b"\n")
    assert (cluster_id, []) == decode_export(encode_export(cluster_id, []), "FILE")


def test_half_a_file_and_a_flipped_byte_are_refused() -> None:
    """
    Wherever it is.
    """
    raw = encode_export(CLUSTER, sets())
    for end in range(len(raw)):
        with pytest.raises(FormatError, match="FILE"):
            decode_export(raw[:end], "FILE")
    for place in range(raw.index(b"\n") + 1, len(raw)):
        flipped = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        with pytest.raises(FormatError, match="FILE: it is damaged"):
            decode_export(flipped, "FILE")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", "no export"),
        (b"pystore-set 3 x {}", "no export"),
        (encode_export(CLUSTER, []).replace(b" 1 ", b" 2 "), "later pystore"),
    ],
)
def test_another_file_is_named(raw: bytes, text: str) -> None:
    """
    A single record is no export either.
    """
    with pytest.raises(FormatError, match=text):
        decode_export(raw, "FILE")
