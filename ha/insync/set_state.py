"""
The set that the controller agreed to, and the changes that it may still agree to. Pure.

Until the outcome of a change is known, the old set and the new set both count: an ack
waits for every member of any of them, and only members of all of them count as replicas
(RMQ-R114, RMQ-R119; RMQ-L.1.1). A change without an answer stays open until its own
refusal arrives or a higher version of the set is seen. From then on the controller
refuses every change that was computed from an older version (RMQ-R105, RMQ-R112).
"""

from __future__ import annotations

from pystore.errors import LocalViolation
from pystore.ha.insync.set_change import SetChange
from pystore.replicaset import AgreedSet, Member, ids_of

__all__ = ["MembershipState"]

_Content = tuple[frozenset[Member], frozenset[Member]]


class MembershipState:
    """
    The agreed set, the requested change, and changes without an answer.

    Attributes:
        master: this broker; in every set.
        agreed: what the controller committed last, as far as is known.
        any_set: members of any set that the controller may have by now, candidates
            included: an ack waits for each.
        any_ids: their broker ids.
        every_set: members of all of them: they count whatever the answer is.
        size_max: members of the largest of them (RMQ-R115).

    Args:
        master: this broker; in every set.
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
        # Changes without an answer, and their attempts.
        self._doubts: dict[_Content, set[int]] = {}
        self.any_set = frozenset({master})
        self.agreed = self._checked(agreed)
        self._count()

    @property
    def asked(self) -> SetChange | None:
        """
        The change that waits for its answer.
        """
        return self._asked

    @property
    def is_in_doubt(self) -> bool:
        """
        Whether an earlier change got no answer and may still be committed.
        """
        return bool(self._doubts)

    @property
    def is_settled(self) -> bool:
        """
        Whether no change is open: only a new request can change the set.
        """
        return self._asked is None and not self._doubts

    def ask(
        self,
        members: frozenset[Member],
        candidates: frozenset[Member],
        reason: str,
        filling: frozenset[int] = frozenset(),
    ) -> SetChange:
        """
        Requests a set; requesting the agreed set again settles changes without an
        answer.

        Raises:
            LocalViolation: an answer is still awaited, or the set lacks the master.
        """
        if self._asked is not None:
            raise LocalViolation(f"attempt {self._asked.attempt} has no answer yet")
        if self.master not in members:
            raise LocalViolation(f"the requested set lacks the master: {reason}")
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
            filling=filling,
        )
        self._count()
        return self._asked

    def adopt(self, agreed: AgreedSet) -> bool:
        """
        Takes the controller's set, from an answer or a poll; a version that is not
        higher than the known one changes nothing (RMQ-R117, RMQ-R118).

        A controller without incarnations names members by id only; then they are the
        ones that were requested.

        Returns:
            Whether the version was newer.

        Raises:
            LocalViolation: the set lacks the master, so it belongs to another
                mastership.
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
        Takes a refusal: this attempt will never be committed (RMQ-R119).
        """
        if self._asked == change:
            self._asked = None
        # Or the answer came after the timeout.
        content = (change.members, change.candidates)
        attempts = self._doubts.get(content, set())
        attempts.discard(change.attempt)
        if not attempts:
            self._doubts.pop(content, None)
        self._count()

    def unknown(self, change: SetChange) -> None:
        """
        No answer came: the attempt may have been committed, or may still be.
        """
        if self._asked == change:
            self._asked = None
            content = (change.members, change.candidates)
            self._doubts.setdefault(content, set()).add(change.attempt)
            self._count()

    def settle_doubts(self) -> None:
        """
        The caller knows that no earlier request can still reach the controller.
        """
        self._doubts.clear()
        self._count()

    def _count(self) -> None:
        """
        Computes the members of any of the sets, and of all of them.
        """
        open_sets = [members for members, _ in self._doubts]
        if self._asked is not None:
            open_sets.append(self._asked.members)
        agreed = self.agreed
        self.any_set = agreed.members.union(agreed.candidates, *open_sets)
        self.any_ids = ids_of(self.any_set)
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
                f"the set of version {agreed.set_epoch} lacks broker "
                f"{self.master.broker_id}: it belongs to another mastership"
            )
        return named

    def _named(self, member: Member) -> Member:
        if member.incarnation is not None:
            return member
        same = (one for one in self.any_set if one.broker_id == member.broker_id)
        return next(same, member)
