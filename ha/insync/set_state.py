"""
The set that the controller agreed to, and the changes that it may yet agree to. Pure.

Until the outcome of a change is known, old and new set count both: acks wait for
everyone in any of them, and copies are counted of those only who are in all of them
(R114, R119; L.1, 1). A lost answer stays open until its own refusal arrives or a
higher version of the set is seen: from then on the controller can only refuse what
was computed from the older one (R105, R112).
"""

from __future__ import annotations

from pystore.errors import LocalViolation
from pystore.ha.insync.set_change import SetChange
from pystore.replicaset import AgreedSet, Member

__all__ = ["MembershipState"]

_Content = tuple[frozenset[Member], frozenset[Member]]


class MembershipState:
    """
    What is agreed, what is asked for, and what is in doubt.

    Attributes:
        master: ourselves; in every set.
        agreed: what the controller committed last, as far as we know.
        any_set: who is in any set that may be the controller's by now, candidates
            included: an ack waits for each.
        every_set: who is in all of them: a copy that counts whatever the answer is.
        size_max: members of the largest of them (R115).

    Args:
        master: ourselves; in every set.
        epoch: of the mastership.
        agreed: the set at its begin.

    Raises:
        LocalViolation: the set lacks the master.
    """

    def __init__(self, master: Member, epoch: int, agreed: AgreedSet) -> None:
        self.master = master
        self._epoch = epoch
        self._attempts = 0
        self._asked: SetChange | None = None
        # What was asked for and not answered, and in which attempts.
        self._doubts: dict[_Content, set[int]] = {}
        self.any_set = frozenset({master})
        self.agreed = self._checked(agreed)
        self._count()

    @property
    def asked(self) -> SetChange | None:
        """
        The change whose answer is awaited.
        """
        return self._asked

    @property
    def is_in_doubt(self) -> bool:
        """
        Whether the answer to an earlier change was lost, and it may still be taken.
        """
        return bool(self._doubts)

    @property
    def is_settled(self) -> bool:
        """
        Whether nothing can change the set but a change that is not asked for yet.
        """
        return self._asked is None and not self._doubts

    def ask(
        self,
        members: frozenset[Member],
        candidates: frozenset[Member],
        reason: str,
    ) -> SetChange:
        """
        Asks for a set; the same set as agreed is asked for to settle doubts.

        Raises:
            LocalViolation: an answer is still awaited, or the set lacks the master.
        """
        if self._asked is not None:
            raise LocalViolation(f"attempt {self._asked.attempt} is not answered yet")
        if self.master not in members:
            raise LocalViolation(f"the master is not in the set it asks for: {reason}")
        self._attempts += 1
        content = (members, candidates)
        self._asked = SetChange(
            attempt=self._attempts,
            epoch=self._epoch,
            set_epoch=self.agreed.set_epoch,
            members=members,
            candidates=candidates,
            reason=reason,
            is_fence=content == (self.agreed.members, self.agreed.candidates),
        )
        self._count()
        return self._asked

    def adopt(self, agreed: AgreedSet) -> bool:
        """
        Takes what the controller says, answered or polled; a version that is not
        higher than the known one changes nothing (R117, R118).

        A controller that knows no incarnations names members without; then they are
        the ones that we asked for.

        Returns:
            Whether it was news.

        Raises:
            LocalViolation: the set lacks the master: it is another mastership's.
        """
        if agreed.set_epoch <= self.agreed.set_epoch:
            return False
        self.agreed = self._checked(agreed)
        self._asked = None
        self._doubts.clear()
        self._count()
        return True

    def refused(self, change: SetChange) -> None:
        """
        This attempt will never be taken (R119).
        """
        if self._asked == change:
            self._asked = None
        # Or the answer came after its time was up.
        content = (change.members, change.candidates)
        attempts = self._doubts.get(content, set())
        attempts.discard(change.attempt)
        if not attempts:
            self._doubts.pop(content, None)
        self._count()

    def unknown(self, change: SetChange) -> None:
        """
        No answer came: the attempt was taken, or will be, or not.
        """
        if self._asked == change:
            self._asked = None
            content = (change.members, change.candidates)
            self._doubts.setdefault(content, set()).add(change.attempt)
            self._count()

    def settle_doubts(self) -> None:
        """
        Somebody who knows the controller vouches that no earlier request is under way.
        """
        self._doubts.clear()
        self._count()

    def _count(self) -> None:
        """
        Who is in any of the sets, and who is in all of them.
        """
        open_sets = [members for members, _ in self._doubts]
        if self._asked is not None:
            open_sets.append(self._asked.members)
        agreed = self.agreed
        self.any_set = agreed.members.union(agreed.candidates, *open_sets)
        self.every_set = agreed.members.intersection(*open_sets)
        sizes = (len(members) for members in (agreed.members, *open_sets))
        self.size_max = max(sizes)

    def _checked(self, agreed: AgreedSet) -> AgreedSet:
        named = AgreedSet(
            frozenset(map(self._named, agreed.members)),
            agreed.set_epoch,
            frozenset(map(self._named, agreed.candidates)),
            agreed.continuing,
        )
        if self.master not in named.members:
            raise LocalViolation(
                f"set {agreed.set_epoch} lacks broker {self.master.broker_id}: "
                "it is another mastership's"
            )
        return named

    def _named(self, member: Member) -> Member:
        if member.incarnation is not None:
            return member
        same = (one for one in self.any_set if one.broker_id == member.broker_id)
        return next(same, member)
