"""
Looks at intervals how replicas lie on racks, tells it, and moves them one after another
if an operator wants that.

A move is a replacement as that of a drain: the new replica is whole and admitted before
the old one goes, and a master hands over first.

Source: BK-A121, BK-A122; docs/autorecovery.md, *Racks*.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from pystore.autorecovery.placement import misplaced, overreplicated, place_for
from pystore.autorecovery.replacement import Replacements
from pystore.autorecovery.replacement_record import ReplacementKey, ReplacementReason
from pystore.autorecovery.replacement_target import HostFacts
from pystore.autorecovery.replica_peers import ClusterView
from pystore.autorecovery.settings import RecoverySettings
from pystore.records.ops import CheckVersion

__all__ = ["PlacementAudit"]

_MS = 1000
_AGAIN_MS = 60_000
"""After which a look is made again that found a set which could not be moved yet."""

_PLACES_MAX = 32
"""Sets whose new place is looked for in one turn: it is bounded."""


class PlacementAudit:
    """
    The looks of one Auditor. One thread.

    Args:
        replacements: of all sets; they move what is misplaced.
        clock_ms: returns Unix time.

    Attributes:
        numbers: ``misplaced`` replicas and ``overreplicated`` sets, as of the last
            look; empty: there was none.
    """

    def __init__(self, replacements: Replacements, clock_ms: Callable[[], int]) -> None:
        self._replacements = replacements
        self._clock_ms = clock_ms
        self.numbers: dict[str, int] = {}
        self._looked_ms: int | None = None
        self._seen: tuple[int, bool] | None = None
        self._tried: set[ReplacementKey] = set()
        self._has_moved = self._is_waiting = False

    def turn(
        self, view: ClusterView, settings: RecoverySettings, term: CheckVersion
    ) -> None:
        """
        Looks if it is time: at the interval, after a change of its settings, and after
        each move; asks for at most one move at a time.

        Args:
            view: all sets, at this moment.
            settings: of AutoRecovery.
            term: the check of the Auditor's term.

        Raises:
            FencedError: the term has ended.
            UnavailableError: the hosts do not answer; the next turn looks.
        """
        if not settings.placement_check_s:
            self.numbers, self._looked_ms, self._seen = {}, None, None
            return
        now_ms = self._clock_ms()
        is_due = self._is_due(settings, now_ms)
        moving = self._replacements.count(ReplacementReason.MISPLACED)
        has_ended, self._has_moved = self._has_moved and not moving, bool(moving)
        is_again = self._is_waiting and not self._is_recent(_AGAIN_MS, now_ms)
        if not (view.may_replace and (is_due or has_ended or is_again)):
            # What ended is looked at once it is known who is dead.
            self._has_moved = self._has_moved or has_ended
            return
        facts = self._replacements.facts(view, settings)
        if is_due:
            self._tried.clear()
        self._look(facts, moving)
        if settings.placement_repair and not moving:
            self._move(facts, term)
        self._looked_ms = now_ms
        self._seen = (settings.placement_check_s, settings.placement_repair)

    def _is_due(self, settings: RecoverySettings, now_ms: int) -> bool:
        now = (settings.placement_check_s, settings.placement_repair)
        return now != self._seen or not self._is_recent(_MS * now[0], now_ms)

    def _is_recent(self, interval_ms: int, now_ms: int) -> bool:
        # A clock that went back counts as no look.
        looked_ms = self._looked_ms
        return looked_ms is not None and 0 <= now_ms - looked_ms < interval_ms

    def _look(self, facts: HostFacts, moving: int) -> None:
        self.numbers = {
            "misplaced": moving + sum(1 for _ in misplaced(facts)),
            "overreplicated": sum(1 for _ in overreplicated(facts)),
        }

    def _move(self, facts: HostFacts, term: CheckVersion) -> None:
        self._is_waiting = False
        left = (one for one in misplaced(facts) if one.key not in self._tried)
        for one in islice(left, _PLACES_MAX):
            choice = place_for(one.key, facts) if one.is_movable else None
            if choice is None or choice.waits:
                # Repairs and other replacements come first.
                self._is_waiting = True
                continue
            # One that was cancelled is not asked for again before the next interval.
            self._tried.add(one.key)
            if choice.host:
                why = f"rack {one.rack}"
                reason = ReplacementReason.MISPLACED
                self._replacements.ask(one.key, reason, why, term)
                self._has_moved = True
                return
