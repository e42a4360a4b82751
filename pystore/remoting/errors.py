"""
The errors of a request without an answer. Pure.

The difference decides whether a request may be repeated: an unsent request was not
carried out, a sent one may have been.
"""

from __future__ import annotations

from pystore.errors import UnavailableError

__all__ = ["NoAnswer", "NotSent"]


class NotSent(UnavailableError):
    """
    The peer did not receive the request, or answered that it did nothing.
    """


class NoAnswer(UnavailableError):
    """
    The request was sent, but no answer arrived: the peer may have carried it out.
    """
