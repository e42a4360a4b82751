"""
A request that was not sent is no request without an answer.
"""

from __future__ import annotations

from pystore.errors import UnavailableError
from pystore.remoting.errors import NoAnswer, NotSent


def test_what_may_be_asked_again_cannot_be_taken_for_what_may_not() -> None:
    """
    Who asks again after `NoAnswer` does it knowingly; both say that a peer is away.
    """
    assert not issubclass(NotSent, NoAnswer)
    assert not issubclass(NoAnswer, NotSent)
    assert issubclass(NotSent, UnavailableError)
    assert issubclass(NoAnswer, UnavailableError)
