"""
Verdicts are plain values that can be pickled and compared.
"""

from __future__ import annotations

import pickle

from pystore.spark.verify.verdicts import Finding, SegmentVerdict, Verdict


def test_a_verdict_is_a_string() -> None:
    """
    So it can be a value of a table or of JSON.
    """
    assert all(one == one.name == str(one) for one in Verdict)


def test_a_new_verdict_is_not_bad() -> None:
    """
    Checks make it bad, with evidence.
    """
    verdict = SegmentVerdict("g", "/a", 0, Verdict.ABSENT)

    assert not verdict.is_bad
    assert [] == verdict.evidence
    assert () == verdict.blocks


def test_two_verdicts_do_not_share_their_evidence() -> None:
    """
    Evidence about one segment is not about another one.
    """
    one = SegmentVerdict("g", "/a", 0, Verdict.OK)
    other = SegmentVerdict("g", "/a", 65536, Verdict.OK)
    one.evidence.append("bad")

    assert [] == other.evidence


def test_verdicts_and_findings_can_be_pickled() -> None:
    """
    The copies equal the originals.
    """
    finding = Finding("record", 42, "bad", 7)
    verdict = SegmentVerdict("g", "/a", None, Verdict.CORRUPT, evidence=["x"])

    assert [finding, verdict] == pickle.loads(pickle.dumps([finding, verdict]))
