"""
Replaces what is lost, on hosts: hands the losses that are due on, and says of each what
becomes of it.

Source: D1; AR-R18, AR-R22; docs/autorecovery.md, *Replacing a replica*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pystore.autorecovery.loss_audit import NO_HOST, DueLoss
from pystore.autorecovery.placement_audit import PlacementAudit
from pystore.autorecovery.replacement import Replacements
from pystore.autorecovery.replacement_record import ReplacementKey
from pystore.autorecovery.replica_key import ReplicaKey
from pystore.autorecovery.replica_peers import ClusterView
from pystore.autorecovery.settings import RecoverySettings
from pystore.errors import UnavailableError
from pystore.records.ops import CheckVersion

__all__ = ["HostReplacements"]


class HostReplacements:
    """
    `pystore.autorecovery.loss_audit.LossReplacements` on hosts. One thread, the
    Auditor's.

    Args:
        replacements: of all sets; of the Auditor's session.
        clock_ms: returns Unix time.
    """

    def __init__(self, replacements: Replacements, clock_ms: Callable[[], int]) -> None:
        self._replacements = replacements
        self._placement = PlacementAudit(replacements, clock_ms)

    @property
    def numbers(self) -> Mapping[str, int]:
        """
        See `LossReplacements.numbers`.
        """
        return self._placement.numbers

    @property
    def is_moving(self) -> bool:
        """
        See `LossReplacements.is_moving`.
        """
        return self._replacements.is_moving

    def replace(
        self,
        due: Sequence[DueLoss],
        view: ClusterView,
        settings: RecoverySettings,
        term: CheckVersion,
    ) -> Mapping[ReplicaKey, str]:
        """
        See `LossReplacements.replace`.

        Raises:
            FencedError: the term has ended.
        """
        lost = [_replaced(one.replica) for one in due]
        try:
            self._replacements.step(view, settings, term, lost)
            self._placement.turn(view, settings, term)
        except UnavailableError as error:
            # Of the hosts or of the record store: the next turn goes on.
            return {one.replica: str(error) for one in due}
        told = self._replacements.text_of
        return {one.replica: told(_replaced(one.replica)) or NO_HOST for one in due}


def _replaced(one: ReplicaKey) -> ReplacementKey:
    return ReplacementKey(one.cluster, one.set_name, one.broker_id)
