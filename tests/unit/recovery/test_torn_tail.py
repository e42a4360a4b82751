"""
Torn, stale, whole or corrupt: each clause of A6 and A8, and that there is always
an answer.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystore.bindings.ffi import Stop
from pystore.errors import InvalidError
from pystore.recovery.behind import Behind
from pystore.recovery.torn_tail import (
    Bound,
    Corrupt,
    Evidence,
    Findings,
    Stale,
    Torn,
    Verdict,
    Whole,
    decide,
)

RETIRED = (Stop.FIELDS, Stop.STALE)
BAD = [stop for stop in Stop if stop.is_bad and stop not in RETIRED]
ENDS = [Stop.ZERO, Stop.LAST]


def _evidence(*, is_abort: bool, start: int = 0, named: int | None = None) -> Evidence:
    end = None if named is None else named + 50
    return Evidence(is_abort, start, named, end, checkpoint_ms=1000)


def _corrupt(verdict: Verdict) -> Corrupt:
    assert isinstance(verdict, Corrupt)
    return verdict


# -- A6: our own bound --------------------------------------------------------


@pytest.mark.parametrize("stop", [*BAD, *ENDS])
def test_a6_below_our_bound_everything_but_a_whole_log_is_corrupt(stop: Stop) -> None:
    """
    A bad record, and as well a log that ends too early.
    """
    verdict = _corrupt(decide(Findings(999, stop), Bound(1000, "published end")))

    assert ("A6", 999, 999) == (verdict.rule, verdict.offset, verdict.end)
    assert verdict.reason.endswith("but the published end is 1000")


LOST = Behind(has_lost_sector=True)
TORN = [stop for stop in BAD if stop is not Stop.UNREADABLE]


@pytest.mark.parametrize("stop", TORN)
@pytest.mark.parametrize("offset", [1000, 1001])
@pytest.mark.parametrize("record", [None, 5000])
def test_a6_from_our_bound_on_a_record_with_a_lost_sector_is_a_torn_tail(
    stop: Stop, offset: int, record: int | None
) -> None:
    """
    Also if whole records follow: write-back has no order.
    """
    behind = Behind(record=record, has_lost_sector=True)
    findings = Findings(offset, stop, later_segment=4096, behind=behind)

    verdict = decide(findings, Bound(1000))

    assert isinstance(verdict, Torn)
    assert (offset, "A6") == (verdict.end, verdict.rule)


@pytest.mark.parametrize("stop", TORN)
@pytest.mark.parametrize("behind", [Behind(), Behind(record=5000)])
def test_a6_from_our_bound_on_a_bad_record_without_a_lost_sector_is_corrupt(
    stop: Stop, behind: Behind
) -> None:
    """
    No crash leaves one: the bytes changed after they were written.
    """
    verdict = _corrupt(decide(Findings(1000, stop, behind=behind), Bound(1000)))

    assert ("A6", 1000) == (verdict.rule, verdict.offset)
    assert "no sector" in verdict.reason


def test_a6_a_record_in_which_the_bytes_of_the_log_end_is_a_torn_tail() -> None:
    """
    No zero sector proves it, so an opening saves the bytes.
    """
    verdict = decide(
        Findings(1000, Stop.SIZE, behind=Behind(ends_inside=True)), Bound(1000)
    )

    assert isinstance(verdict, Torn)
    assert not verdict.has_lost_sector


def test_a6_zeros_before_whole_records_are_a_torn_tail() -> None:
    """
    A scan stops there without a bad record.
    """
    behind = Behind(record=9000, has_lost_sector=True)

    assert isinstance(
        decide(Findings(4096, Stop.ZERO, behind=behind), Bound(4096)), Torn
    )


@pytest.mark.parametrize("stop", ENDS)
def test_a6_a_log_that_ends_at_or_above_the_bound_is_whole(stop: Stop) -> None:
    """
    Behind a blank record, too: it was published as an end (A1).
    """
    findings = Findings(4096, stop, record_end=4000)

    assert Whole(4096) == decide(findings, Bound(4096))


def test_unreadable_bytes_are_never_a_torn_tail() -> None:
    """
    A disk with a read error may work later.
    """
    findings = Findings(2000, Stop.UNREADABLE)

    for bound in (Bound(0), _evidence(is_abort=True), _evidence(is_abort=False)):
        assert "A6" == _corrupt(decide(findings, bound)).rule


# -- A8: the evidence of a store without bounds -------------------------------


@pytest.mark.parametrize("stop", [*BAD, *ENDS])
def test_a8_with_abort_nothing_may_be_bad_below_rocketmq_s_start(stop: Stop) -> None:
    """
    RocketMQ treats bytes that it would not read again as flushed.
    """
    evidence = _evidence(is_abort=True, start=4096, named=9000)

    verdict = _corrupt(decide(Findings(4095, stop), evidence))

    assert "A8" == verdict.rule
    assert verdict.reason.endswith("but RocketMQ's recovery would start at 4096")


def test_a8_with_abort_the_queues_alone_prove_nothing() -> None:
    """
    A queue's page may have reached the disk before the log's.
    """
    evidence = _evidence(is_abort=True, start=4096, named=9000)

    assert Torn(8000, "the body's checksum differs", "A6") == decide(
        Findings(8000, Stop.BODY, behind=LOST), evidence
    )
    assert Whole(8000) == decide(Findings(8000, Stop.ZERO), evidence)


@pytest.mark.parametrize("stop", [*BAD, *ENDS])
def test_a8_without_abort_nothing_may_be_bad_below_the_last_named_record(
    stop: Stop,
) -> None:
    """
    A clean stop put log and queues onto the disk.
    """
    evidence = _evidence(is_abort=False, start=4096, named=9000)

    verdict = _corrupt(decide(Findings(8999, stop), evidence))

    assert "A8" == verdict.rule
    assert verdict.reason.endswith("but consume queues name the record at 9000")


@pytest.mark.parametrize("named", [None, 0, 8000])
def test_a8_without_abort_the_tail_from_the_last_named_record_on_is_torn(
    named: int | None,
) -> None:
    """
    Also where no queue names any.
    """
    verdict = decide(
        Findings(8000, Stop.LENGTHS, behind=LOST),
        _evidence(is_abort=False, named=named),
    )

    assert Torn(8000, "the record's lengths do not add up", "A6") == verdict


@pytest.mark.parametrize("is_abort", [True, False])
@pytest.mark.parametrize("stop", [*BAD, *ENDS])
def test_a8_a_flushed_record_with_an_entry_above_forbids_the_cut(
    is_abort: bool,
    stop: Stop,
) -> None:
    """
    It is whole and older than the checkpoint, so the bytes before it were flushed.
    """
    findings = Findings(8000, stop, named_behind=8500)

    verdict = _corrupt(decide(findings, _evidence(is_abort=is_abort)))

    assert "A8" == verdict.rule
    assert "the record at 8500 is whole, named by a consume queue" in verdict.reason


@pytest.mark.parametrize("is_abort", [True, False])
@pytest.mark.parametrize("stop", [*BAD, *ENDS])
def test_a8_a_later_segment_that_begins_with_a_whole_record_is_never_removed(
    is_abort: bool,
    stop: Stop,
) -> None:
    """
    A truncation leaves stale bytes in one segment only.
    """
    findings = Findings(8000, stop, later_segment=8192)

    verdict = _corrupt(decide(findings, _evidence(is_abort=is_abort)))

    assert "A8" == verdict.rule
    assert verdict.reason.endswith("but segment 8192 begins with a whole record")


@pytest.mark.parametrize("is_abort", [True, False])
def test_a8_above_the_last_named_record_a_repeated_queue_offset_is_stale(
    is_abort: bool,
) -> None:
    """
    The log is cut there, and the verdict is stale.
    """
    verdict = decide(
        Findings(9050, Stop.ZERO, is_stale=True),
        _evidence(is_abort=is_abort, named=9000),
    )

    text = "stale: the record repeats or skips offsets of its queue"
    assert Stale(9050, text, "A8") == verdict


@pytest.mark.parametrize("is_abort", [True, False])
@pytest.mark.parametrize("continues", [True, False])
def test_a8_whole_records_behind_a_bad_one_are_kept_if_they_continue_their_queues(
    is_abort: bool, continues: bool
) -> None:
    """
    Records that a truncation left repeat queue offsets, and are cut.
    """
    findings = Findings(
        9050, Stop.MAGIC, behind=Behind(record=9500, continues=continues)
    )

    verdict = decide(findings, _evidence(is_abort=is_abort, named=9000))

    assert isinstance(verdict, Corrupt if continues else Stale)


def test_a8_queue_offsets_are_compared_above_the_last_named_record_only() -> None:
    """
    Without a queue entry nothing names the expected offsets.
    """
    assert 9050 == _evidence(is_abort=True, named=9000).stale_above
    assert None is _evidence(is_abort=True).stale_above


@pytest.mark.parametrize("stop", [*BAD, *ENDS])
def test_a16_a_log_that_ends_below_a_stored_end_is_corrupt(stop: Stop) -> None:
    """
    After another program wrote, stored ends are no bounds, but still evidence.
    """
    evidence = replace(
        _evidence(is_abort=False), stored_end=7000, stored_name="stored synced end"
    )

    verdict = _corrupt(decide(Findings(6999, stop), evidence))

    assert verdict.reason.endswith("but the stored synced end is 7000")
    assert 7000 == evidence.bound


def test_a8_the_bound_is_the_start_with_abort_and_the_last_named_without() -> None:
    """
    Nothing below may be bad.
    """
    assert 4096 == _evidence(is_abort=True, start=4096, named=9000).bound
    assert 9000 == _evidence(is_abort=False, start=4096, named=9000).bound
    assert 0 == _evidence(is_abort=False, start=4096).bound


@pytest.mark.parametrize(
    ("findings", "end"),
    [
        (Findings(8192, Stop.LAST, record_end=8100, last_base=4096), 8100),
        (Findings(8192, Stop.LAST, record_end=4000, last_base=4096), 4096),
        (Findings(8192, Stop.ZERO, record_end=8100, last_base=8192), 8192),
        (Findings(8192, Stop.LAST, last_base=4096), 4096),
        (Findings(8192, Stop.LAST), 8192),
    ],
)
def test_a_blank_before_no_segment_ends_a_log_as_in_rocketmq(
    findings: Findings, end: int
) -> None:
    """
    Its end is that of the last record, or the base of a segment without one; with a
    segment behind it, that segment.
    """
    assert Whole(end) == decide(findings, _evidence(is_abort=True))


# -- the decision as a whole --------------------------------------------------


@pytest.mark.parametrize("stop", [Stop.ROWS, Stop.LIMIT])
def test_a_scan_that_has_not_ended_is_no_finding(stop: Stop) -> None:
    """
    A decision before the end of the scan would cut whole records.
    """
    with pytest.raises(InvalidError, match="has not ended"):
        Findings(0, stop)


offsets = st.integers(0, 20_000)
maybe = st.none() | offsets
bounds = st.builds(Bound, offsets) | st.builds(
    Evidence, st.booleans(), offsets, maybe, maybe, offsets
)


@given(
    st.builds(
        Findings, offsets, st.sampled_from([*BAD, *ENDS]), maybe, maybe, maybe, maybe
    ),
    bounds,
)
def test_there_is_always_an_answer_and_it_never_invents_bytes(
    findings: Findings, bound: Bound | Evidence
) -> None:
    """
    Total; a cut is never above the finding, never below a bound, and every answer
    but a whole log names its rule.
    """
    verdict = decide(findings, bound)

    if isinstance(verdict, Corrupt):
        assert findings.offset == verdict.offset
    elif isinstance(bound, Bound):
        assert findings.offset == verdict.end >= bound.offset
    else:
        assert findings.offset >= bound.bound
    if isinstance(verdict, Whole):
        assert not findings.stop.is_bad
    else:
        assert verdict.rule in ("A6", "A8")
        assert verdict.reason
        assert "\n" not in verdict.reason
