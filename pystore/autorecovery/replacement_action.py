"""
The steps of a replacement: changes of its record, requests, waits. Values alone.

Source: docs/autorecovery.md, *Replacing a replica*.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.autorecovery.replacement_record import Replacement, WaitReason

__all__ = [
    "AddReplica",
    "ChangeReplacement",
    "CleanBroker",
    "EndReplacement",
    "HandMastership",
    "MakeLearner",
    "RemoveReplica",
    "ReplacementStep",
    "WaitFor",
]


@dataclass(frozen=True, slots=True)
class ChangeReplacement:
    """
    The record changes.
    """

    record: Replacement


@dataclass(frozen=True, slots=True)
class EndReplacement:
    """
    The record is deleted.

    Attributes:
        text: what happened, for people.
    """

    text: str


@dataclass(frozen=True, slots=True)
class WaitFor:
    """
    Nothing can be done now.

    Attributes:
        problem: why, one line.
        reason: its kind, if it does not end by itself.
    """

    problem: str
    reason: WaitReason | None = None


@dataclass(frozen=True, slots=True)
class AddReplica:
    """
    A host is asked to add a replica.
    """

    host: str


@dataclass(frozen=True, slots=True)
class RemoveReplica:
    """
    A host is asked to remove its replica of the set.
    """

    host: str
    deletes_store: bool


@dataclass(frozen=True, slots=True)
class CleanBroker:
    """
    The controller is asked to remove a broker that is dead.
    """

    broker_id: int
    version: int


@dataclass(frozen=True, slots=True)
class HandMastership:
    """
    A master is asked to hand over.
    """

    master: str
    broker_id: int


@dataclass(frozen=True, slots=True)
class MakeLearner:
    """
    The controller is asked to make a broker a learner: the replaced one was one.
    """

    broker_id: int
    version: int


ReplacementStep = (
    ChangeReplacement
    | EndReplacement
    | WaitFor
    | AddReplica
    | RemoveReplica
    | CleanBroker
    | HandMastership
    | MakeLearner
)
