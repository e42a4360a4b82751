"""
Verdicts are plain values: they travel, are compared, and share nothing.
"""

from __future__ import annotations

import pickle

from pystore.spark.verify.verdicts import Finding, SegmentVerdict, Verdict


def test_a_verdict_is_its_own_word() -> None:
    """
    So it can stand in a table or in JSON as it is.
    """
    assert all(one == one.name == str(one) for one in Verdict)


def test_a_new_verdict_is_not_bad() -> None:
    """
    Somebody has to say so, with evidence.
    """
    verdict = SegmentVerdict("g", "/a", 0, Verdict.ABSENT)

    assert not verdict.is_bad
    assert [] == verdict.evidence
    assert () == verdict.blocks


def test_two_verdicts_do_not_share_their_evidence() -> None:
    """
    What is said of one segment is not said of another.
    """
    one = SegmentVerdict("g", "/a", 0, Verdict.OK)
    other = SegmentVerdict("g", "/a", 65536, Verdict.OK)
    one.evidence.append("bad")

    assert [] == other.evidence


def test_verdicts_and_findings_travel() -> None:
    """
    What arrives is equal to what was sent.
    """
    finding = Finding("record", 42, "bad", 7)
    verdict = SegmentVerdict("g", "/a", None, Verdict.CORRUPT, evidence=["x"])

    assert [finding, verdict] == pickle.loads(pickle.dumps([finding, verdict]))
