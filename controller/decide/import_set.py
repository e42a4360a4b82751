"""
Takes the record of a set that was exported, or rebuilt from stores. Pure.

A set that has brokers is not replaced. What is left of a deleted one continues: its
next id and its epochs never decrease (RMQ-R254).

Source: docs/operations.md, *All controllers are lost*.
"""

from __future__ import annotations

from dataclasses import replace

from pystore.controller.model.commands import ImportSet
from pystore.controller.model.decision import (
    Accepted,
    CommandResult,
    Rejected,
    events_of,
)
from pystore.controller.model.events import SetImported
from pystore.controller.model.facts import Facts
from pystore.controller.model.replies import Done
from pystore.controller.model.state import SetState
from pystore.remoting.codes import ResponseCode

__all__ = ["import_set"]


def import_set(state: SetState, command: ImportSet, _: Facts) -> CommandResult:
    """
    Takes the record, unless the set has another one.
    """
    if replace(state, version=0) == replace(command.state, version=0):
        # It is imported already: the answer was lost.
        return Accepted((), Done())
    if state.is_known:
        return Rejected(
            ResponseCode.CONTROLLER_INVALID_REQUEST,
            f"broker set {state.name} of cluster {state.cluster} has brokers: stop "
            "them and delete it (`pystore admin deleteBrokerSet`), if another record "
            "is to take its place",
        )
    return Accepted(events_of(state, SetImported(command.state)), Done())
