"""
The records of replacements and of hosts that are emptied.
"""

from __future__ import annotations

import pytest

from pystore.autorecovery.record_form import decode_form, encode_form
from pystore.autorecovery.replacement_record import (
    HostDrain,
    LeftReplica,
    Replacement,
    ReplacementKey,
    ReplacementPhase,
    ReplacementReason,
    WaitReason,
    decode_drain,
    decode_replacement,
    drain_key,
    drained_host,
    encode_drain,
    encode_replacement,
)
from pystore.errors import FormatError, InvalidError

FULL = Replacement(
    ReplacementReason.DRAIN,
    5,
    "operator",
    ReplacementPhase.FILLING,
    6,
    "a",
    "d",
    4,
    3,
    2,
    99,
    cancelled=True,
    left=(LeftReplica("b", 2, keeps_store=True), LeftReplica("c")),
    failed=("b", "c"),
    problem="the disk is full",
    waits_for=WaitReason.NO_TARGET,
)


@pytest.mark.parametrize("one", [FULL, Replacement(ReplacementReason.LOST, 1)])
def test_a_replacement_comes_back_from_its_record(one: Replacement) -> None:
    """
    With fields of a later program.
    """
    assert one == decode_replacement(encode_replacement(one), "key")
    values = {**decode_form(encode_replacement(one), "key").values, "later": 1}
    again = decode_replacement(encode_form(values), "key")

    assert {"later": 1} == again.more
    assert again == decode_replacement(encode_replacement(again), "key")


@pytest.mark.parametrize(
    "changes",
    [
        {"reason": "BORED"},
        {"phase": "later"},
        {"waits_for": "x"},
        {"left": [["a"]]},
        {"left": "a"},
        {"tries": -1},
    ],
)
def test_what_is_no_replacement_is_refused(changes: dict[str, object]) -> None:
    """
    The line names the record.
    """
    values = {**decode_form(encode_replacement(FULL), "key").values, **changes}
    with pytest.raises(FormatError, match=r"^record key: "):
        decode_replacement(encode_form(values), "key")


@pytest.mark.parametrize("names", [("c", "s"), ("a/b", "%"), ("ü", "x:y")])
def test_a_key_names_one_replica(names: tuple[str, str]) -> None:
    """
    Whatever its set is called.
    """
    key = ReplacementKey(*names, 12)
    assert 2 == key.text.count("/")
    assert key == ReplacementKey.parse(key.text)
    assert names == key.names


@pytest.mark.parametrize("text", ["", "c/s", "c/s/x", "c/s/01", "c/s/1/2", "c/s/²"])
def test_another_text_is_no_key(text: str) -> None:
    """
    Each replica has one.
    """
    with pytest.raises(FormatError, match="CLUSTER/SET/ID"):
        ReplacementKey.parse(text)


def test_names_that_are_too_long_for_a_key_are_refused() -> None:
    """
    Before anything is written.
    """
    with pytest.raises(InvalidError):
        _ = ReplacementKey("c" * 200, "s" * 200, 1).record
    with pytest.raises(InvalidError):
        drain_key("h" * 300)


def test_a_host_that_is_emptied_comes_back_from_its_record() -> None:
    """
    And its name from the key.
    """
    one = HostDrain(7, "operator", with_living=True, more={"later": 1})
    assert one == decode_drain(encode_drain(one), "key")
    assert "rack/7" == drained_host(drain_key("rack/7"))
