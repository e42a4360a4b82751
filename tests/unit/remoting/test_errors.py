"""
A request that was not sent is no request without an answer.
"""

from __future__ import annotations

from pystore.errors import UnavailableError
from pystore.remoting.errors import NoAnswer, NotSent


def test_not_sent_and_no_answer_are_different_errors() -> None:
    """
    A caller repeats a request after `NoAnswer` knowingly; both are `UnavailableError`.
    """
    assert not issubclass(NotSent, NoAnswer)
    assert not issubclass(NoAnswer, NotSent)
    assert issubclass(NotSent, UnavailableError)
    assert issubclass(NoAnswer, UnavailableError)
