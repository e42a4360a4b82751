"""
What the negotiation of a broker id asks for. Pure: values, carried out by its owner.

The requests of `pystore.controller.calls` are effects, too: 1012, 1013 and 1003.

Source: R19 to R27; docs/identity.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.controller.calls import ApplyBrokerId, GetNextBrokerId, RegisterBroker
from pystore.exports import BrokerIdentity, TemporaryIdentity

__all__ = [
    "DeleteTemp",
    "Effect",
    "GiveUp",
    "Pause",
    "ReadIdentity",
    "WriteConfirmed",
    "WriteTemp",
]


@dataclass(frozen=True, slots=True)
class ReadIdentity:
    """
    Look who the store says that we are.
    """


@dataclass(frozen=True, slots=True)
class WriteTemp:
    """
    Remember which id will be applied for, and by which code: durably, before.
    """

    temporary: TemporaryIdentity


@dataclass(frozen=True, slots=True)
class WriteConfirmed:
    """
    Remember the id that a controller gave; the temporary one goes with the same step.
    """

    identity: BrokerIdentity


@dataclass(frozen=True, slots=True)
class DeleteTemp:
    """
    Forget an id that is certainly somebody else's.
    """

    temporary: TemporaryIdentity


@dataclass(frozen=True, slots=True)
class Pause:
    """
    Wait before the next try.

    Attributes:
        failures: in a row, from 1 on: how long to wait is the owner's to draw.
        reason: one line for people.
    """

    failures: int
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """
    Nothing but an operator can help: say so, and stop.
    """

    reason: str


Effect = (
    ReadIdentity
    | WriteTemp
    | WriteConfirmed
    | DeleteTemp
    | GetNextBrokerId
    | ApplyBrokerId
    | RegisterBroker
    | Pause
    | GiveUp
)
