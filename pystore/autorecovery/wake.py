"""
Lets marked segments that rest be tried at once: what made their repairs fail may be
over.

Source: AR-R11, AR-R17; docs/autorecovery.md, *The Auditor*.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pystore.autorecovery.auditor_term import check_term
from pystore.autorecovery.mark import decode_mark, encode_mark
from pystore.autorecovery.segment_key import SegmentKey
from pystore.errors import FormatError, UnknownOutcomeError
from pystore.records.ops import CheckVersion, Op, Put
from pystore.records.record_store import RecordStore

__all__ = ["wake_marks"]


def wake_marks(
    store: RecordStore,
    keys: Iterable[SegmentKey],
    now_ms: int,
    term: CheckVersion | None = None,
) -> int:
    """
    Ends the rest of segments; the failed tries stay counted. A segment that does not
    rest may be under repair, and is left alone.

    Args:
        store: of the queue.
        keys: of the segments.
        now_ms: Unix time.
        term: the check of the Auditor's term; ``None``: an operator does it.

    Returns:
        How many rested.

    Raises:
        FencedError: the term has ended.
    """
    return sum(_wake(store, key, now_ms, term) for key in keys)


def _wake(
    store: RecordStore, key: SegmentKey, now_ms: int, term: CheckVersion | None
) -> bool:
    while True:
        try:
            found = store.get(key.mark)
            if found is None:
                return False
            mark = decode_mark(found.value, found.key)
        except FormatError:
            # The summary tells it.
            return False
        if mark.not_before_ms <= now_ms:
            return False
        ops: list[Op] = [
            CheckVersion(key.mark, found.version),
            Put(key.mark, encode_mark(replace(mark, not_before_ms=0))),
            *([] if term is None else [term]),
        ]
        try:
            if store.commit(ops) is not None:
                return True
        except UnknownOutcomeError:
            # If it was done, the mark does not rest any more.
            continue
        check_term(store, term)
