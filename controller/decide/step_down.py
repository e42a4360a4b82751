"""
A mastership, or the lease of one, is over. Pure.

Source: safety B9, C3; R81.
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
How many epochs ago a former master's last mastership may have begun, to end its lease
by its word. Between two masterships of one process lies at least one epoch, so this one
is its last; an older one may have been followed by another, whose lease runs.
"""


def step_down(state: SetState, command: StepDown, _: Facts) -> CommandResult:
    """
    Takes a mastership back, or what may have been left of it.
    """
    if command.master in state.unreleased:
        if command.epoch < state.epoch - _BACK_MAX:
            return _fenced(state, command.epoch)
        ended = LeasesEnded(frozenset({command.master}))
        return Accepted(events_of(state, ended), Done())
    if state.master != command.master:
        return Rejected(
            ResponseCode.CONTROLLER_INVALID_MASTER,
            f"broker {command.master.broker_id} is not master",
        )
    if state.epoch != command.epoch:
        return _fenced(state, command.epoch)
    ended_all = MastershipEnded(is_released=True, is_resigned=True)
    return Accepted(events_of(state, ended_all), Done())


def end_leases(state: SetState, command: EndLeases, _: Facts) -> CommandResult:
    """
    Forgets former masters, if no other has become one meanwhile.
    """
    if command.epoch != state.epoch:
        return _fenced(state, command.epoch)
    if not state.unreleased:
        return Accepted((), Done())
    return Accepted(events_of(state, LeasesEnded(state.unreleased)), Done())


def _fenced(state: SetState, epoch: int) -> Rejected:
    return Rejected(
        ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
        f"epoch {epoch}, but {state.epoch} rules",
    )
