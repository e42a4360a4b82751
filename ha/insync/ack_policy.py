"""
Which acks an append can get, and which ack it got. Pure.
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
        newer_epoch: a newer epoch that a peer knows: nothing is acknowledged any more.
        has_legacy: a member does not report what it flushed.
    """

    epoch: int
    _rules: SetRules
    _set_state: MembershipState
    _membership: Membership
    _progress: ConfirmOffset
    newer_epoch: int | None = None
    has_legacy: bool = False

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
        Returns up to which offset consumers may read, in a set whose appends use that
        ack. Records that only the master acknowledged are read from the master alone
        (RMQ-R120, RMQ-R124; RMQ-L.1.13).
        """
        own = self._progress
        return own.confirm_offset if ack.is_shared else own.ends.newest

    def refusal(self, ack: Ack) -> AppendRefusal | None:
        """
        Returns, before an append, why its ack could not be reached (RMQ-R206);
        ``None``: it could.
        """
        size, wanted = self._set_state.size_max, self._rules.min_in_sync
        legacy = self.legacy_ids() if ack is Ack.ALL_SYNCED else []
        if self.newer_epoch is not None:
            text = f"stale epoch {self.epoch}: the set is at epoch {self.newer_epoch}"
            reason = RefusalReason.FENCED
        elif not ack.is_shared:
            return None
        elif size < wanted:
            text = (
                f"nothing was appended: the SyncStateSet has {size} replicas, and "
                f"minInSyncReplicas is {wanted}"
            )
            reason = RefusalReason.NOT_ENOUGH
        elif ack is Ack.ALL_SYNCED and not self._rules.serves_synced:
            text = "the set does not serve all-synced: configure it, or use the ack all"
            reason = RefusalReason.NOT_SERVED
        elif legacy:
            text = (
                f"broker {legacy[0]} speaks the legacy protocol, so its acks do not "
                "cover its disk: use the ack all"
            )
            reason = RefusalReason.LEGACY_MEMBER
        else:
            return None
        return AppendRefusal(reason, text)

    def find_legacy(self) -> None:
        """
        Looks for legacy members, after a session or a set changed.
        """
        self.has_legacy = bool(self.legacy_ids())

    def legacy_ids(self) -> list[int]:
        """
        Returns the ids of members that do not report what they flushed.
        """
        listed = (self._membership.session_of(one) for one in self._set_state.any_set)
        return sorted(one.broker_id for one in listed if one and one.is_legacy)

    def outcome(self, ack: Ack, end_offset: int, is_leased: bool) -> AckOutcome | None:
        """
        Returns how the wait for an ack ended; ``None``: it has not ended.

        Args:
            ack: that the append asked for.
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
        Returns the outcome of an ack that was not reached before the timeout.
        """
        is_held = ack.is_shared and end_offset <= self._progress.confirm_offset
        is_short = len(self._set_state.every_set) < self._rules.min_in_sync
        return AckOutcome.NOT_ENOUGH if is_held and is_short else AckOutcome.TIMED_OUT

    def holders(self) -> HolderOffsets:
        """
        Returns which replica holds how much now.
        """
        own, me = self._progress, self._set_state.master.broker_id
        held = [(me, own.ends.newest, own.flushed_offset)]
        for one in self._membership.sessions:
            if not one.is_learner:
                ends = one.received_offset or 0, one.flushed_offset or 0
                held.append((one.broker_id, *ends))
        return HolderOffsets(tuple(held), self.has_legacy)
