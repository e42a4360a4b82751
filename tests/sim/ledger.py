"""
What the record of the set has ever said, and what must be true of every step of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sim.checkers import Violation

from pystore.controller.model.codec import decode
from pystore.controller.model.events import SetEvent
from pystore.controller.model.invariants import regressions
from pystore.controller.model.replica import LogStanding
from pystore.controller.model.state import SetState
from pystore.errors import FormatError
from pystore.replicaset import AgreedSet, Member

__all__ = ["NAMES", "SET", "Election", "Ledger"]

NAMES = "sim", "set"
"""Cluster and name of the set."""

SET = "sets/sim/set"
"""Its key in the record store."""


@dataclass(frozen=True, slots=True)
class Election:
    """
    One that happened.

    Attributes:
        epoch: the new one.
        master: the elected broker.
        is_power_cut: by B3: what `all` promised may be lost.
    """

    epoch: int
    master: Member
    is_power_cut: bool


class Ledger:
    """
    Every state that was committed, one after another.

    Attributes:
        state: the last.
        version: of its record.
        elections: all of them.
        copies: processes whose store was restored or copied, and for which no operator
            has vouched.
    """

    def __init__(self) -> None:
        self.state = SetState(*NAMES)
        self.version = 0
        self.elections: list[Election] = []
        self.copies: set[Member] = set()

    @property
    def agreed(self) -> AgreedSet:
        """
        The set, as a master has it.
        """
        return self.state.agreed

    def committed(
        self,
        raw: bytes,
        version: int,
        events: Sequence[SetEvent],
        *,
        by: int,
        is_leading: bool,
    ) -> None:
        """
        A commit was made, by a controller that leads at that moment (C2), and by
        events of which each is for the state that it met, once (RMQ-R112, RMQ-R232).
        """
        try:
            before, after = self.state, decode(raw, SET)
        except FormatError as error:
            # It says what does not hold of the state.
            raise Violation(str(error)) from error
        where = f"controller {by} makes epoch {after.epoch}"
        if not is_leading:
            raise Violation(f"C2: {where}, and does not lead")
        fits = [one.version - before.version for one in events]
        if fits != list(range(after.version - before.version)):
            raise Violation(f"RMQ-R232: {where} of events {fits} of {before.version}")
        wrong = regressions(before, after)
        if wrong:
            raise Violation(f"{where}: {wrong[0]}")
        self.state, self.version = after, version
        copied = after.listed & self.copies
        if copied:
            raise Violation(f"B1: {where} with a copy as a voter: {copied}")
        if after.master is not None and after.master != before.master:
            self._elected(before, after, where)

    def _elected(self, before: SetState, after: SetState, where: str) -> None:
        """
        The epoch is new (B1), and the master could be elected (B2, B3, RMQ-R63).
        """
        assert after.master is not None
        if after.epoch <= before.epoch:
            raise Violation(f"{where}: it had begun before")
        replica = before.replica(after.master.broker_id)
        standing = replica.standing if replica else None
        if standing not in (LogStanding.SOUND, LogStanding.RESTARTED):
            raise Violation(f"B1: {where} with a master that is {standing}")
        is_power_cut = standing is LogStanding.RESTARTED
        # A Java broker's next process is the same member, and its standing stays as it
        # was: that its log is shorter now is told by heartbeats, which no commit has.
        well = {
            one.member
            for one in before.replicas
            if one.standing is LogStanding.SOUND and one.incarnation is not None
        }
        if is_power_cut and before.listed & well:
            raise Violation(
                f"B3: {where}, and {before.listed & well} have lost nothing"
            )
        if before.is_founded and not is_power_cut and after.master not in before.listed:
            raise Violation(f"B2: {where} with {after.master}, which is not listed")
        election = Election(after.epoch, after.master, is_power_cut)
        self.elections.append(election)
