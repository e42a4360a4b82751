"""
What a history expects of a set.
"""

from __future__ import annotations

from sim.broker_set import BrokerSet
from sim.clients import Clients

from pystore.controller.server.record_keys import LEADER

__all__ = ["Expected"]

_STUCK = ("resync needed", "with the longer log")


class Expected:
    """
    Compares words with a set.

    Args:
        brokers: the set.
        clients: of the set.
        outcome: of the last append.
        said: why the last append was refused.
    """

    def __init__(
        self, brokers: BrokerSet, clients: Clients, outcome: str = "", said: str = ""
    ) -> None:
        self._set, self._clients = brokers, clients
        self._last_outcome, self._last_said = outcome, said

    def problem(self, what: str, words: list[str]) -> str:
        """
        Returns what is found instead; empty: what is expected.
        """
        if what == "ends":
            now = self._set.statuses()
            ends = {now[f"b{one}"]["endOffset"] for one in words}
            return "" if len(ends) == 1 else f"they end at {sorted(ends)}"
        wanted = " ".join(words)
        found = str(getattr(self, f"_found_{what}")())
        if found == wanted or (what == "refused" and wanted in found):
            return ""
        return f"it is {found or 'nothing'}"

    def members(self) -> list[str]:
        """
        Returns the ids of the SyncStateSet.
        """
        state = self._set.state()
        found = set() if state is None else state.agreed.members
        return [str(one) for one in sorted({one.broker_id for one in found})]

    def _found_set(self) -> str:
        return " ".join(self.members())

    def _found_master(self) -> str:
        return " ".join(one.name[1:] for one in self._clients.masters())

    def _found_candidates(self) -> str:
        state = self._set.state()
        found = set() if state is None else state.agreed.candidates
        return " ".join(map(str, sorted({one.broker_id for one in found})))

    def _found_epoch(self) -> str:
        state = self._set.state()
        return "" if state is None else str(state.epoch)

    def _found_leader(self) -> str:
        row = self._set.records.space.rows.get(LEADER)
        for number, one in enumerate(self._set.controllers):
            if row is not None and one.address.encode() == row.value:
                return str(-number)
        return "None"

    def _found_outcome(self) -> str:
        return self._last_outcome

    def _found_refused(self) -> str:
        return self._last_said

    def _found_confirmed(self) -> str:
        now = self._set.statuses()[self._clients.masters()[0].name]
        return "" if now["gapBytes"] == 0 else f"{now}"

    def _found_frozen(self) -> str:
        return "" if self._found_confirmed() else "at the end"

    def _found_stuck(self) -> str:
        return " ".join(
            str(one["brokerId"])
            for one in self._set.statuses().values()
            if any(word in str(one["problem"]) for word in _STUCK)
        )
