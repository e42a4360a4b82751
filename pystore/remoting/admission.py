"""
Where a connection asks whether a request may pass. Pure.

`pystore.access.gate` decides it; here are its form, and the default, which lets every
request pass.

Source: docs/security.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from pystore.remoting.command import RemotingCommand
from pystore.remoting.repeated_request import RepeatedRequest
from pystore.remoting.reply import Reply

__all__ = ["Admission", "OpenAdmission", "Signs", "unsigned"]

P_contra = TypeVar("P_contra", contravariant=True)
P = TypeVar("P")

Signs = Callable[[RemotingCommand, P], RemotingCommand]
"""Returns a request as it is sent by a connection: with a signature or without."""


class Admission(Protocol[P_contra]):
    """
    Decides over the requests that a server received.
    """

    def admit(
        self, request: RemotingCommand, peer: P_contra, /
    ) -> RemotingCommand | Reply:
        """
        Returns a request with its user, or the reply that takes the place of its
        handler.
        """
        ...

    def admits_repeat(self, repeat: RepeatedRequest, peer: P_contra, /) -> bool:
        """
        Returns whether a request may be answered that differs from an admitted one of
        this connection in its numbers and its signature only, without being decoded.
        """
        ...


class OpenAdmission(Generic[P]):
    """
    Lets every request pass.
    """

    def admit(self, request: RemotingCommand, _: P, /) -> RemotingCommand | Reply:
        """
        Returns the request.
        """
        return request

    def admits_repeat(self, _: RepeatedRequest, __: P, /) -> bool:
        """
        Returns that it may be answered.
        """
        return True


def unsigned(request: RemotingCommand, _: object) -> RemotingCommand:
    """
    Returns the request as it is.
    """
    return request
