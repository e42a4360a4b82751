"""
The rest of a segment that was not repaired.
"""

from __future__ import annotations

from dataclasses import replace

from lib.autorecovery.marks import a_mark

from pystore.autorecovery.mark import decode_mark, encode_mark
from pystore.autorecovery.segment_rest import SegmentRest
from pystore.autorecovery.settings import RecoverySettings

SETTINGS = RecoverySettings()


def test_a_failed_repair_rests_longer_each_time() -> None:
    """
    AR-R11; the reason and what was found are kept (AR-R18).
    """
    mark = replace(a_mark(), tries=2)
    rested = SegmentRest("no answer", {2: "unknown"}).rested(mark, 5000, SETTINGS)

    assert (3, 45_000) == (rested.tries, rested.not_before_ms)
    assert ("no answer", {2: "unknown"}) == (rested.why, rested.found)
    assert rested == decode_mark(encode_mark(rested), "key")


def test_a_rest_of_a_given_time_is_no_failed_repair() -> None:
    """
    Something else has to happen first.
    """
    mark = replace(a_mark(), tries=2)
    rested = SegmentRest("active", for_ms=30_000).rested(mark, 5000, SETTINGS)

    assert (2, 35_000) == (rested.tries, rested.not_before_ms)


def test_only_tries_in_a_row_count_as_ones_without_a_copy() -> None:
    """
    AR-R9; the record says how many there were.
    """
    mark = a_mark()
    for _ in range(2):
        mark = SegmentRest(is_without_copy=True).rested(mark, 5000, SETTINGS)
    assert 2 == mark.no_copy_tries == decode_mark(encode_mark(mark), "k").no_copy_tries

    assert 0 == SegmentRest().rested(mark, 5000, SETTINGS).no_copy_tries
