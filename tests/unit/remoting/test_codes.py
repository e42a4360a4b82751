"""
The numbers of the remoting protocol are RocketMQ's.
"""

from __future__ import annotations

from lib.oracle.golden_controller import steps
from lib.oracle.golden_remoting import FRAMES

from pystore.remoting.codes import CommandFlag, Language, RequestCode, ResponseCode


def test_every_request_that_was_recorded_has_a_name() -> None:
    """
    A number without a name would be answered as not supported.
    """
    assert set() == {line["command"] for line in FRAMES} - set(RequestCode)


def test_every_answer_that_was_recorded_has_a_name() -> None:
    """
    So do the codes of responses.
    """
    codes = {line["decoded"]["code"] for line in FRAMES if line["kind"] == "response"}

    assert set() == codes - set(ResponseCode)


def test_every_answer_of_a_recorded_controller_has_a_name() -> None:
    """
    What its own classes answered in 5 344 requests.
    """
    answered = {step.theirs.code for step in steps()}

    assert {2000, 2001, 2002, 2003} < answered
    assert set() == answered - set(ResponseCode)


def test_every_language_that_was_recorded_has_a_name() -> None:
    """
    Names and ordinals are the peer's, so ours may not differ.
    """
    names = {line["decoded"]["language"] for line in FRAMES}

    assert set() == names - set(Language.__members__)


def test_flags_are_the_bits_of_java() -> None:
    """
    1 answers, 2 wants no answer.
    """
    for line in FRAMES:
        said = line["decoded"]
        flag = CommandFlag(said["flag"])
        assert said["isResponse"] == (CommandFlag.RESPONSE in flag)
        assert said["isOneway"] == (CommandFlag.ONE_WAY in flag)
