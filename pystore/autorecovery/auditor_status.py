"""
What the Auditor waits for, and since when: a record for people and alarms.

Source: AR-R15, AR-R21; docs/autorecovery.md, *The Auditor*.
"""

from __future__ import annotations

from collections.abc import Mapping

from pystore.autorecovery.auditor_term import AuditorTerm
from pystore.autorecovery.record_form import encode_form
from pystore.records.ops import Put

__all__ = ["STATUS", "AuditorStatus"]

STATUS = "recovery/status/auditor"
"""The record: ``waits_for``, ``since_ms``, ``at_ms``, ``name``, and numbers."""

_WRITE_MS = 5_000
_FRESH_MS = 60_000


class AuditorStatus:
    """
    The record of one Auditor. One thread.

    Args:
        term: of the Auditor, which alone writes it.
        name: of its process.
    """

    def __init__(self, term: AuditorTerm, name: str) -> None:
        self._term = term
        self._name = name
        self._waits_for = ""
        self._since_ms = 0
        self._written: Mapping[str, object] | None = None
        self._written_ms = 0

    def load(self) -> None:
        """
        Another term: the record is written anew.
        """
        self._written, self._waits_for = None, ""

    def tell(
        self,
        waits_for: str,
        numbers: Mapping[str, int],
        texts: Mapping[str, str],
        now_ms: int,
        steady_ms: int,
    ) -> bool:
        """
        Writes the record, if it is another one, at most every 5 s; the same one every
        60 s.

        Args:
            waits_for: one line, without numbers that change.
            numbers: of the present state.
            texts: what else is to be seen, by name.
            now_ms: Unix time.
            steady_ms: of a clock that never steps.

        Returns:
            Whether it was written.

        Raises:
            FencedError: the term has ended.
        """
        if waits_for != self._waits_for:
            self._waits_for, self._since_ms = waits_for, now_ms
        told = {"waits_for": waits_for, "since_ms": self._since_ms, "name": self._name}
        record: Mapping[str, object] = {**texts, **numbers, **told}
        rest_ms = _WRITE_MS if record != self._written else _FRESH_MS
        if self._written is not None and steady_ms - self._written_ms < rest_ms:
            return False
        self._term.write([Put(STATUS, encode_form({**record, "at_ms": now_ms}))])
        self._written, self._written_ms = record, steady_ms
        return True
