"""
What a handler says becomes the response to its request.
"""

from __future__ import annotations

from pystore.remoting.codes import Language, ResponseCode, Serialisation
from pystore.remoting.command import RemotingCommand
from pystore.remoting.fields import MissingField
from pystore.remoting.reply import Reply, failure_reply, unknown_code_reply


def test_a_response_repeats_the_opaque_and_nothing_else() -> None:
    """
    It is in JSON, whatever the request was written in.
    """
    request = RemotingCommand(
        1004, 77, 0, {"a": "b"}, b"body", serialisation=Serialisation.ROCKETMQ
    )
    expected = RemotingCommand(
        0, 77, 1, {"c": "d"}, language=Language.PYTHON, version=479
    )

    assert expected == Reply(ext_fields={"c": "d"}).to(request)


def test_an_unknown_code_is_answered_in_the_words_of_rocketmq() -> None:
    """
    With the space in front.
    """
    assert Reply(3, " request type 7 not supported") == unknown_code_reply(7)


def test_an_error_is_answered_in_one_line() -> None:
    """
    A stack of lines is for our log; too long a line is cut.
    """
    assert Reply(1, "ValueError: first") == failure_reply(ValueError("first\nsecond"))
    assert Reply(1, "KeyError") == failure_reply(KeyError())
    assert 512 == len(failure_reply(ValueError("x" * 9999)).remark or "")


def test_a_missing_field_is_answered_with_its_code() -> None:
    """
    Without the name of a class of ours.
    """
    error = MissingField("brokerId is missing", ResponseCode.CONTROLLER_INVALID_REQUEST)

    assert Reply(2005, "brokerId is missing") == failure_reply(error)
