"""
Ends a mastership, or the leases of former masters. Pure.

Source: B9, C3; RMQ-R81.
"""

from __future__ import annotations

from pystore.controller.model.commands import EndLeases, StepDown
from pystore.controller.model.decision import (
    Accepted,
    CommandResult,
    Rejected,
    events_of,
)
from pystore.controller.model.events import LeasesEnded, MastershipEnded
from pystore.controller.model.facts import Facts
from pystore.controller.model.replies import Done
from pystore.controller.model.state import SetState
from pystore.remoting.codes import ResponseCode

__all__ = ["end_leases", "step_down"]

_BACK_MAX = 2
"""
How many epochs ago the mastership may have begun whose resignation ends a lease. Two
masterships of one process are at least one epoch apart, so this one is the last. After
an older one the process may have had another mastership, whose lease still runs.
"""


def step_down(state: SetState, command: StepDown, _: Facts) -> CommandResult:
    """
    Ends a mastership, or its remaining lease.
    """
    if command.master in state.unreleased:
        if command.epoch < state.epoch - _BACK_MAX:
            return _fenced(state, command.epoch)
        ended = LeasesEnded(frozenset({command.master}))
        return Accepted(events_of(state, ended), Done())
    if state.master != command.master:
        return Rejected(
            ResponseCode.CONTROLLER_INVALID_MASTER,
            f"broker {command.master.broker_id} is not the master",
        )
    if state.epoch != command.epoch:
        return _fenced(state, command.epoch)
    ended_all = MastershipEnded(is_released=True, is_resigned=True)
    return Accepted(events_of(state, ended_all), Done())


def end_leases(state: SetState, command: EndLeases, _: Facts) -> CommandResult:
    """
    Ends the leases of former masters, unless another mastership has ended since.
    """
    if command.epoch != state.epoch:
        return _fenced(state, command.epoch)
    if not state.unreleased:
        return Accepted((), Done())
    return Accepted(events_of(state, LeasesEnded(state.unreleased)), Done())


def _fenced(state: SetState, epoch: int) -> Rejected:
    return Rejected(
        ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
        f"stale epoch {epoch}: the set is at epoch {state.epoch}",
    )
