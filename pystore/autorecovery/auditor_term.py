"""
The term of the Auditor: at most one process audits, and each of its writes proves it.

The term is a record that one session holds. A candidate does not block: it looks, and
looks again at its next turn. So each turn is bounded, and a candidate can be stopped.
An Auditor that was paused, or whose record was deleted, commits nothing more.

Source: BK-A7 to BK-A15; docs/autorecovery.md, *The Auditor*.
"""

from __future__ import annotations

from collections.abc import Sequence

from pystore.errors import FencedError, FormatError, UnknownOutcomeError
from pystore.records.ops import ABSENT, CheckVersion, Hold, Op
from pystore.records.record_store import RecordStore

__all__ = ["AUDITOR", "AuditorTerm", "auditor_name", "check_term"]

AUDITOR = "recovery/auditor"
"""Held by the Auditor; names its process."""


class AuditorTerm:
    """
    The candidacy and the terms of one process. One thread.

    Args:
        store: the session that holds the record.
        name: of this process, for people.

    Attributes:
        check: fails once this process is not the Auditor any more; ``None``: it is not.
        holder: the process that was found to be the Auditor instead; empty: none.
    """

    def __init__(self, store: RecordStore, name: str) -> None:
        self._store = store
        self._value = name.encode(errors="backslashreplace")
        self._is_unknown = False
        self.check: CheckVersion | None = None
        self.holder = ""

    def begin(self) -> bool:
        """
        Returns whether this process is the Auditor, which it may become at this call.
        """
        found = self._store.get(AUDITOR)
        if self.check and found and found.version == self.check.version:
            return True
        self.check, self.holder = None, ""
        # After a lost answer the record may be held by this session; a hold of another
        # one refuses the commit.
        if found is None or self._is_unknown:
            version = ABSENT if found is None else found.version
            check = CheckVersion(AUDITOR, version)
            ops: list[Op] = [check, Hold(AUDITOR, self._value)]
            self._is_unknown = True
            try:
                made = self._store.commit(ops)
            except UnknownOutcomeError:
                # The next turn tells it.
                return False
            self._is_unknown = False
            if made is not None:
                self.check = CheckVersion(AUDITOR, made)
                return True
            found = self._store.get(AUDITOR)
        self.holder = "" if found is None else _name(found.value)
        return False

    def write(self, ops: Sequence[Op]) -> None:
        """
        Commits as the Auditor. The operations may be committed twice: puts and deletes
        of records that only the Auditor writes.

        Raises:
            FencedError: the term has ended; nothing was changed.
        """
        if self.check is None:
            raise FencedError(f"{AUDITOR}: this process is not the Auditor")
        while True:
            try:
                if self._store.commit([self.check, *ops]) is not None:
                    return
            except UnknownOutcomeError:
                # Again: the records are the same after it.
                continue
            check_term(self._store, self.check)
            return

    def end(self) -> None:
        """
        Forgets the term, which has ended.
        """
        self.check = None


def check_term(store: RecordStore, term: CheckVersion | None) -> None:
    """
    Raises if a term has ended, after a commit that a check refused.

    Args:
        store: of the queue.
        term: the check of the term; ``None``: there is none.

    Raises:
        FencedError: the term has ended.
    """
    if term is None:
        return
    held = store.get(term.key)
    if held is None or held.version != term.version:
        raise FencedError(
            f"the term of {term.key} has ended: another Auditor marks segments now"
        )


def auditor_name(store: RecordStore) -> str | None:
    """
    Returns the name of the process that is the Auditor; ``None``: none is (BK-A12).
    """
    try:
        found = store.get(AUDITOR)
    except FormatError:
        # A damaged row of LMDB; the next Auditor writes it again.
        return None
    return None if found is None else _name(found.value)


def _name(value: bytes) -> str:
    return value.decode(errors="replace")
