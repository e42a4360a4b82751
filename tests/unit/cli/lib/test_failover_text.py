"""
The report of the replicated part fits into a terminal, and its JSON has the numbers.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pystore.cli.lib.failover_text import failover_json, failover_text
from pystore.demo.failover import CONTROLLER, KILL, SWITCH, FailoverReport
from pystore.demo.replicas import AgreementReport
from pystore.demo.store_checks import StoreCheck
from pystore.demo.tail_cut import TailCut
from pystore.demo.timeline import AckGap, Timeline, TimelineEvent


@pytest.fixture
def report() -> FailoverReport:
    """
    A run that went well.
    """
    timeline = Timeline((1, 2, 3), end_s=24.0)
    timeline.events.append(TimelineEvent(6.9, "demo", "SIGKILL: broker 1"))
    timeline.gaps = [
        AckGap(6.0, 7.1, KILL, 6.9),
        AckGap(15.2, 15.3, SWITCH, 15.0),
        AckGap(20.9, 21.0, CONTROLLER, 17.8),
    ]
    store = StoreCheck(1, Path("/d/broker-1"), 945_204, 0, 955_039, 181 << 20, "whole")
    checks = [replace(store, broker=n, store=Path(f"/d/broker-{n}")) for n in (1, 2, 3)]
    return FailoverReport(
        timeline,
        records=945_204,
        log_bytes=179 << 20,
        retries=9,
        cut=TailCut(1, 30_000_000, 20_000_000, 67_579, 64_972),
        checks=checks,
        agreement=AgreementReport(9, 500 << 20, 8.5, page=Path("out/report.html")),
        seconds=34.94,
        picture=Path("out/timeline.svg"),
    )


def test_the_text_says_what_was_acknowledged_cut_and_found(
    report: FailoverReport,
) -> None:
    """
    No line is wider than a terminal.
    """
    text = failover_text(report, keep=False)
    lines = text.splitlines()

    assert "acknowledged but missing: 0" == lines[-1]
    assert 80 >= max(map(len, lines))
    for part in (
        "945,204 records as `all`",
        "SIGKILL of the master: 200 ms after it, 1.1 s with the pause",
        "switch: 100 ms at most",
        "broker 1 cut 10.0 MB (67,579 records)",
        "so safe on it alone: 64,972",
        "of them acknowledged as `all`: 0",
        "9,835 records without an `all` ack",
        "all segments agree",
        "out/timeline.svg",
    ):
        assert part in text
    assert "/d/broker-1" not in text
    assert "/d/broker-1" in failover_text(report, keep=True)


def test_what_is_wrong_stands_before_the_verdict(report: FailoverReport) -> None:
    """
    The store, the segment and the reason of each.
    """
    report.checks[1] = replace(
        report.checks[1], missing=5, problem="offset 7: a body differs"
    )
    report.agreement = AgreementReport(bad=(("/d/broker-2", None, "other bytes"),))
    text = failover_text(report, keep=False)

    assert "acknowledged but missing: 5" == text.splitlines()[-1]
    assert "broker 2: whole: offset 7: a body differs" == text.splitlines()[-2]
    assert "BAD: /d/broker-2 segment -: other bytes" in text
    assert "all segments agree" not in text


def test_what_was_not_done_is_said(report: FailoverReport) -> None:
    """
    No cut, no Java, no report.
    """
    report.cut = TailCut(1, 9)
    report.agreement = AgreementReport(skipped="install Java")
    text = failover_text(report, keep=False)
    assert "broker 1 cut nothing" in text
    assert "install Java" in text

    report.agreement = report.picture = None
    assert "on Spark" not in failover_text(report, keep=False)
    found = failover_json(report, keep=False)
    assert (None, None) == (found["spark"], found["picture"])


def test_json_has_the_same_numbers(report: FailoverReport) -> None:
    """
    Places of stores only if they stay.
    """
    found = failover_json(report, keep=False)

    assert found == json.loads(json.dumps(found))
    assert (945_204, 0, 9) == (found["records"], found["missing"], found["retries"])
    assert [1.1, 0.1, 0.1] == [gap["seconds"] for gap in found["gaps"]]
    assert (10_000_000, 0) == (found["cut"]["bytes"], found["cut"]["allRecords"])
    assert [None] * 3 == [one["store"] for one in found["stores"]]
    assert "/d/broker-3" == failover_json(report, keep=True)["stores"][2]["store"]
    assert [{"seconds": 6.9, "who": "demo", "what": "SIGKILL: broker 1"}] == (
        found["timeline"]
    )
