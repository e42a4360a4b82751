"""
What can become of a request that brought no answer. Pure.

The difference decides whether it may be asked again: what was not sent was not
carried out, and what was sent may have been.
"""

from __future__ import annotations

from pystore.errors import UnavailableError

__all__ = ["NoAnswer", "NotSent"]


class NotSent(UnavailableError):
    """
    The peer did not get the request, or told us that it did nothing.
    """


class NoAnswer(UnavailableError):
    """
    The request was sent and no answer came: the peer may have carried it out.
    """
