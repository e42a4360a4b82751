"""
What an append can be promised, and what it was given in the end. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.ha.insync.ack import Ack, AckOutcome, AppendRefusal, RefusalReason
from pystore.ha.insync.config import SetRules
from pystore.ha.insync.confirm_offset import ConfirmOffset
from pystore.ha.insync.holders import HolderOffsets
from pystore.ha.insync.membership import Membership
from pystore.ha.insync.set_state import MembershipState

__all__ = ["AckPolicy"]


@dataclass(slots=True)
class AckPolicy:
    """
    The acks of one mastership.

    Attributes:
        epoch: of the mastership.
        newer_epoch: one that somebody knows: nothing is acknowledged any more.
    """

    epoch: int
    _rules: SetRules
    _agreement: MembershipState
    _membership: Membership
    _progress: ConfirmOffset
    newer_epoch: int | None = None

    def completed(self, ack: Ack) -> int:
        """
        Returns the offset below which the ack is reached; never moves back.
        """
        own = self._progress
        if ack is Ack.ALL:
            return own.all_offset
        if ack is Ack.ALL_SYNCED:
            return own.all_synced_offset
        return own.flushed_offset if ack is Ack.LEADER_SYNCED else own.ends.newest

    def readable_offset(self, ack: Ack) -> int:
        """
        Returns up to where consumers may read, in a set whose appends use that ack:
        what is promised by the master alone is read from the master alone (R120,
        R124; L.1, 13).
        """
        own = self._progress
        return own.confirm_offset if ack.is_shared else own.ends.newest

    def refusal(self, ack: Ack) -> AppendRefusal | None:
        """
        Says before an append why its promise could not be kept, if so (R206).
        """
        size, wanted = self._agreement.size_max, self._rules.min_in_sync
        legacy = self.legacy_ids() if ack is Ack.ALL_SYNCED else []
        if self.newer_epoch is not None:
            text = f"epoch {self.epoch} is over: epoch {self.newer_epoch} is known"
            reason = RefusalReason.FENCED
        elif not ack.is_shared:
            return None
        elif size < wanted:
            text = f"{size} of at least {wanted} replicas are in sync; nothing appended"
            reason = RefusalReason.NOT_ENOUGH
        elif ack is Ack.ALL_SYNCED and not self._rules.serves_synced:
            text = "the set does not serve all-synced; configure it, or ask for all"
            reason = RefusalReason.NOT_SERVED
        elif legacy:
            text = (
                f"broker {legacy[0]} speaks the legacy protocol, whose acks never "
                "mean its disk; ask for all"
            )
            reason = RefusalReason.LEGACY_MEMBER
        else:
            return None
        return AppendRefusal(reason, text)

    def legacy_ids(self) -> list[int]:
        """
        Returns the members that never say what they flushed.
        """
        listed = (self._membership.session_of(one) for one in self._agreement.any_set)
        return sorted(one.broker_id for one in listed if one and one.is_legacy)

    def outcome(self, ack: Ack, end_offset: int, is_leased: bool) -> AckOutcome | None:
        """
        Returns what became of an append's ack; ``None``: it is still waited for.

        Args:
            ack: which.
            end_offset: where the append ends.
            is_leased: whether `leader` and `leader-synced` may be decided now (B8, C1).
                `all` needs no lease: a master that was replaced lacks the acks.
        """
        is_over = self.newer_epoch is not None
        if not ack.is_shared and (is_over or not is_leased):
            return AckOutcome.FENCED
        if end_offset <= self.completed(ack):
            return AckOutcome.REACHED
        return AckOutcome.FENCED if is_over else None

    def expired(self, ack: Ack, end_offset: int) -> AckOutcome:
        """
        Returns what an ack is that was waited for long enough.
        """
        is_held = ack.is_shared and end_offset <= self._progress.confirm_offset
        is_short = len(self._agreement.every_set) < self._rules.min_in_sync
        return AckOutcome.NOT_ENOUGH if is_held and is_short else AckOutcome.TIMED_OUT

    def copies(self) -> HolderOffsets:
        """
        Returns who holds how much at this moment.
        """
        own, me = self._progress, self._agreement.master.broker_id
        held = [(me, own.ends.newest, own.flushed_offset)]
        held += [
            (one.broker_id, one.received_offset or 0, one.flushed_offset or 0)
            for one in self._membership.sessions
            if not one.is_learner
        ]
        return HolderOffsets(tuple(held), bool(self.legacy_ids()))
