"""
A broker set that a test drives from decision to decision, checked after each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from pystore.controller.decide.dispatch import decide
from pystore.controller.model.apply import apply
from pystore.controller.model.commands import (
    AlterSet,
    ApplyId,
    Command,
    Elect,
    Recovery,
    Register,
    Trigger,
)
from pystore.controller.model.decision import Accepted, CommandResult, Rejected
from pystore.controller.model.facts import Facts, LastHeartbeat
from pystore.controller.model.invariants import regressions, violations
from pystore.controller.model.log_end import UNTOLD, LogBegin, LogEnd
from pystore.controller.model.replies import CommandReply, Election
from pystore.controller.model.state import SetState
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import Incarnation, Member

__all__ = ["Brokers", "alive", "incarnation", "start"]

_Reply = TypeVar("_Reply", bound=CommandReply)


def incarnation(counter: int, bits: int = 0) -> Incarnation:
    """
    Returns the start of that number.
    """
    return Incarnation(counter, bits.to_bytes(16, "big"))


def start(
    counter: int,
    *,
    end: int = 0,
    epoch: int = 0,
    bits: int = 0,
    begin: LogBegin = UNTOLD,
    starts: tuple[Incarnation, ...] = (),
    **told: bool,
) -> Recovery:
    """
    Returns the recovery that a process of pystore reports.
    """
    return Recovery(
        incarnation(counter, bits),
        boot_id="boot",
        position=LogEnd(epoch, end),
        published_end=end,
        begin=begin,
        starts=starts,
        **told,
    )


class Brokers:
    """
    One set. Its invariants are checked after each event.

    Attributes:
        state: as it is.
        last_heartbeats: the heartbeats that are valid.
        former_heartbeats: the last one of each other broker.
        may_replace: see `Facts`.
        is_unclean_allowed: see `Facts`.
    """

    def __init__(self, state: SetState | None = None) -> None:
        self.state = state or SetState("cluster", "set")
        self.last_heartbeats: dict[int, LastHeartbeat] = {}
        self.former_heartbeats: dict[int, LastHeartbeat] = {}
        self.may_replace = True
        self.is_unclean_allowed = False

    @property
    def facts(self) -> Facts:
        """
        Returns the present facts.
        """
        return Facts(
            dict(self.last_heartbeats),
            dict(self.former_heartbeats),
            may_replace=self.may_replace,
            is_unclean_allowed=self.is_unclean_allowed,
        )

    def ask(self, command: Command) -> CommandResult:
        """
        Decides a command, and applies its events.
        """
        decision = decide(self.state, command, self.facts)
        for event in decision.events if isinstance(decision, Accepted) else ():
            after = apply(self.state, event)
            assert () == violations(after), f"{command}: {event}"
            assert () == regressions(self.state, after), f"{command}: {event}"
            assert after == apply(after, event), f"{event}: twice"
            self.state = after
        return decision

    def do(self, command: Command, of: type[_Reply]) -> _Reply:
        """
        Returns the reply to an accepted command.
        """
        decision = self.ask(command)
        assert isinstance(decision, Accepted), decision
        assert isinstance(decision.reply, of), decision
        return decision.reply

    def refused(self, command: Command) -> Rejected:
        """
        Returns the refusal of a command.
        """
        decision = self.ask(command)
        assert isinstance(decision, Rejected), decision
        return decision

    def join(self, broker_id: int, recovery: Recovery | None = None) -> Member:
        """
        A broker applies for its id, registers and sends a heartbeat.
        """
        self.ask(ApplyId(broker_id, f"host:{broker_id};1"))
        return self.register(broker_id, recovery)

    def register(self, broker_id: int, recovery: Recovery | None = None) -> Member:
        """
        A process registers, and sends a heartbeat. The connection of the process
        before it at that address has ended.
        """
        position = recovery.position if recovery is not None else LogEnd(0, 0)
        process = recovery.incarnation if recovery is not None else None
        before = self.last_heartbeats.get(broker_id)
        if before is not None and before.incarnation != process:
            self.disconnect(broker_id)
        command = Register(broker_id, f"host:{broker_id}", recovery)
        decision = self.ask(command)
        assert isinstance(decision, Accepted), decision
        self.hear(broker_id, LastHeartbeat(process, position))
        return Member(broker_id, process)

    def reach(self, broker_id: int, epoch: int, end: int) -> None:
        """
        A heartbeat reports the log end of a broker.
        """
        process = self.last_heartbeats[broker_id].incarnation
        self.last_heartbeats[broker_id] = LastHeartbeat(process, LogEnd(epoch, end))

    def hear(self, broker_id: int, heartbeat: LastHeartbeat) -> None:
        """
        A process of a broker sends a heartbeat.
        """
        self.last_heartbeats[broker_id] = heartbeat
        self.former_heartbeats.pop(broker_id, None)

    def disconnect(self, broker_id: int) -> None:
        """
        The connection of its heartbeats ends.
        """
        self.last_heartbeats[broker_id] = replace(
            self.last_heartbeats[broker_id], is_connected=False
        )

    def die(self, *broker_ids: int, has_ended: bool = False) -> None:
        """
        Their heartbeats are not valid any more.

        Args:
            broker_ids: of the brokers.
            has_ended: there is evidence that their processes have ended.
        """
        for broker_id in broker_ids:
            last = self.last_heartbeats.pop(broker_id, None)
            if last is not None:
                self.former_heartbeats[broker_id] = replace(
                    last, is_connected=False, is_ended=has_ended
                )

    def elect(
        self, broker_id: int | None = None, trigger: Trigger | None = None
    ) -> Election:
        """
        Returns the result of an election.
        """
        by = Trigger.CONTROLLER if broker_id is None else Trigger.BROKER
        return self.do(Elect(trigger or by, broker_id), Election)

    def admit(self, *members: Member) -> None:
        """
        The master changes its set to itself and these.
        """
        master = self.master
        agreed = self.state.agreed
        ids = {one.broker_id for one in members}
        wanted = AlterSet(
            master,
            self.state.epoch,
            agreed.set_epoch,
            frozenset({master, *members}),
            frozenset(one for one in agreed.candidates if one.broker_id not in ids),
        )
        decision = self.ask(wanted)
        assert isinstance(decision, Accepted), decision

    @property
    def master(self) -> Member:
        """
        Returns the master.
        """
        assert self.state.master is not None
        return self.state.master

    def code(self, command: Command) -> ResponseCode:
        """
        Returns the code of a refusal.
        """
        return self.refused(command).code


def alive(*broker_ids: int) -> dict[int, LastHeartbeat]:
    """
    Returns heartbeats of Java brokers.
    """
    return {broker_id: LastHeartbeat(position=LogEnd(0, 0)) for broker_id in broker_ids}
