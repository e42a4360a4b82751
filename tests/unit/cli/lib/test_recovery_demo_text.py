"""
The report of the demo of AutoRecovery names each story, each set and each problem.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from pystore.cli.lib.recovery_demo_text import recovery_demo_json, recovery_demo_text
from pystore.demo.recovery_run import RecoveryDemoReport, SetCheck
from pystore.demo.recovery_story import LAST_HOSTS, SETS, StoryResult
from pystore.demo.store_checks import StoreCheck
from pystore.demo.timeline import Timeline, TimelineEvent

STORES = tuple(
    StoreCheck(number, Path(f"/d/host-{number}/s"), 900, 0, 910, 2_000_000, "whole")
    for number in LAST_HOSTS
)


def a_report(**changes: object) -> RecoveryDemoReport:
    """
    A good report, but for changes of its last set.
    """
    sets = [SetCheck(name, 2, 900, 0, 0, "", STORES, ()) for name in SETS]
    sets[-1] = replace(sets[-1], **changes)  # type: ignore[arg-type]
    timeline = Timeline((1, 2), lane="host")
    timeline.events.append(TimelineEvent(1.23456, "demo", "kills"))
    stories = [StoryResult("a host dies", "it came back", 31.25, 4.5)]
    return RecoveryDemoReport(timeline, stories, sets, retries=3, seconds=99.0)


def test_a_good_report_has_a_line_for_each_story_and_set() -> None:
    """
    No line is wider than a terminal.
    """
    lines = recovery_demo_text(a_report(), keep=False).splitlines()

    assert "a host dies  31.2 s           4.5 s" in lines
    assert 4 == sum("2, 4, 5: whole, equal  2.00 MB" in one for one in lines)
    assert "acknowledged but missing: 0, unreadable on a master: 0" in lines[-1]
    assert "acknowledged  3,600 records as `all`" in lines
    assert 80 >= max(map(len, lines))


def test_each_problem_is_named_and_the_report_is_not_good() -> None:
    """
    Missing, unreadable, unread, unequal records, a gap in a queue, damage.
    """
    for changes, text in (
        (
            {"stores": (replace(STORES[0], missing=7, problem="x"), *STORES[1:])},
            "set-4 on host 2: whole: x",
        ),
        ({"unreadable": 2}, "unreadable on a master: 2"),
        ({"unread": 5}, "set-4: its consumer lacks 5 records"),
        ({"differing": (5,)}, "set-4: the logs of hosts 5 differ from the first one"),
        ({"problem": "queue 1 has a gap"}, "set-4: queue 1 has a gap"),
        ({"stores": STORES[:2]}, "2, 4: whole"),
        ({"acknowledged": 0}, "set-4             0"),
    ):
        report = a_report(**changes)
        assert not report.is_good
        assert text in recovery_demo_text(report, keep=False)
    assert a_report().is_good


def test_a_story_that_did_not_come_true_is_one_line() -> None:
    """
    Nothing was looked up then.
    """
    report = RecoveryDemoReport(
        Timeline((1,)), problem="a drain: no sign of it within 9 s"
    )
    text = recovery_demo_text(report, keep=False)

    assert not report.is_good
    assert "it did not come true: a drain: no sign of it within 9 s" in text
    assert "acknowledged but missing: not looked up" in text


def test_json_has_the_numbers_of_the_text() -> None:
    """
    Stores are named only if they stay.
    """
    found = recovery_demo_json(a_report(unreadable=2), keep=True)

    assert (3600, 0, 2, False) == (
        found["records"],
        found["missing"],
        found["unreadable"],
        found["isGood"],
    )
    assert [31.25] == [one["seconds"] for one in found["stories"]]
    assert "/d/host-2/s" == found["sets"][0]["stores"][0]["store"]
    assert [{"seconds": 1.235, "who": "demo", "what": "kills"}] == found["timeline"]
    json.dumps(found)
    told = recovery_demo_json(a_report(), keep=False)
    assert told["sets"][0]["stores"][0]["store"] is None
