"""
Decisions of a controller: the master and the set.

It holds the set with its epoch and elects by the rules B1 to B3, and B7: of the last
committed set and its candidates, a process that never restarted; if there is none,
one is elected as soon as each of them has come back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pystore.ha.insync.set_change import SetChange
from pystore.replicaset import AgreedSet, Member

__all__ = ["Register"]

NO_MEMBERS = AgreedSet(frozenset(), 0)


@dataclass
class Register:
    """
    The state of a controller.

    Attributes:
        agreed: the set as it was committed last.
        epoch: of the last mastership.
        master: of that epoch; ``None``: none.
        living: running processes, by broker id.
    """

    agreed: AgreedSet = NO_MEMBERS
    epoch: int = 0
    master: Member | None = None
    living: dict[int, Member] = field(default_factory=dict)

    def died(self, broker_id: int) -> None:
        """
        A process was killed. It never has a mastership again.
        """
        self.living.pop(broker_id, None)
        if self.master is not None and self.master.broker_id == broker_id:
            self.master = None

    def eligible(self) -> frozenset[Member]:
        """
        Returns the members that may be elected now.
        """
        listed = self.agreed.members | self.agreed.candidates
        living = frozenset(self.living.values())
        if listed & living:
            return listed & living
        # All members were restarted (B3): each of them holds what was acknowledged.
        back = {self.living.get(one.broker_id) for one in listed}
        if None in back:
            return frozenset()
        return frozenset(one for one in back if one is not None)

    def elect(self, ends: dict[Member, tuple[int, int]]) -> Member:
        """
        Elects the member with the highest last epoch and end.

        Args:
            ends: last epoch and end of each eligible member.

        Returns:
            the new master; it is the set alone, the others stay candidates (B7).
        """
        assert self.master is None
        assert ends.keys() == self.eligible()
        winner = max(ends, key=lambda one: (ends[one], -one.broker_id))
        others = frozenset(ends) & (self.agreed.members | self.agreed.candidates)
        self.epoch += 1
        self.master = winner
        self.agreed = AgreedSet(
            frozenset({winner}), self.agreed.set_epoch + 1, others - {winner}
        )
        return winner

    def take(self, change: SetChange) -> AgreedSet | frozenset[Member]:
        """
        Commits a change of the set.

        Returns:
            the new set; the one there is, where the change was computed from an older
            one; or the refused members: all of them, if the master did not ask.
        """
        if change.epoch != self.epoch or self.master not in change.members:
            return change.members
        if change.set_epoch != self.agreed.set_epoch:
            return self.agreed
        gone = (change.members - self.agreed.members) - frozenset(self.living.values())
        if gone:
            return gone
        assert change.candidates <= self.agreed.candidates
        self.agreed = AgreedSet(
            change.members, self.agreed.set_epoch + 1, change.candidates
        )
        return self.agreed
