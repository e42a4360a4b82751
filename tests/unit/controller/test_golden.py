"""
The decisions of RocketMQ's own classes, step for step, and where ours are others.

docs/controller.md lists the differences; here each difference is identified by its
cause.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

from lib.oracle.golden_controller import Answer, Step, ours, state_of, steps, table_of

from pystore.controller.decide.told_epochs import told_epoch
from pystore.controller.model.invariants import violations
from pystore.controller.model.state import SetState

PAGE = Path(__file__).parents[3] / "docs" / "controller.md"

# What RocketMQ's state may be and ours never is, and the hole that leads there.
STATES = {
    "a broker id was never allocated": "RMQ-R36",
    "a listed broker is not registered": "RMQ-R50",
    "the master is not in its set": "RMQ-R256",
}


@cache
def _replayed() -> tuple[Counter[str], tuple[str, ...], int]:
    """
    Returns how often each rule made a difference, which differences no rule explains,
    and how many steps there were.

    Our own state continues as long as RocketMQ's tables would show it; otherwise it is
    built from them.
    """
    reasons: Counter[str] = Counter()
    strange, count = [], 0
    kept: dict[tuple[str, str, str], SetState] = {}
    for step in steps():
        count += 1
        key = (step.place.split("/")[0], step.asked_cluster, step.name)
        state = kept.get(key)
        if state is None or table_of(state) != step.before:
            state = state_of(step)
        answer, after = ours(step, state)
        kept[key] = after
        if (answer.code, answer.fields, answer.table) == (
            step.theirs.code,
            step.theirs.fields,
            step.theirs.table,
        ):
            continue
        reason = _reason(step, state, answer)
        if reason:
            reasons[reason] += 1
        else:
            strange.append(f"{step.place}: {step.request}: {answer}")
    return reasons, tuple(strange), count


def _reason(step: Step, state: SetState, answer: Answer) -> str:
    """
    Returns the rule by which our answer is another; empty: there is none.
    """
    if "isMissing" in step.before:
        return "RMQ-R255"
    told = [STATES[line] for line in violations(state) if line in STATES]
    if told:
        return told[0]
    by_code = {
        1001: _of_a_set_change,
        1002: _of_an_election,
        1003: _of_a_registration,
        1011: _of_a_cleaning,
    }
    return by_code.get(step.request["code"], _of_an_id)(step, state, answer)


def _of_an_id(step: Step, state: SetState, answer: Answer) -> str:
    if not step.before and state.next_id > 1:
        return "RMQ-R254"
    return "RMQ-R36" if (step.theirs.code, answer.code) == (0, 2014) else ""


def _of_a_registration(step: Step, state: SetState, answer: Answer) -> str:
    if (step.theirs.code, answer.code) == (0, 2014):
        return "RMQ-R42"
    number = int(step.request["extFields"]["brokerId"])
    if number == step.before["masterBrokerId"]:
        return "RMQ-R152"
    return "RMQ-R58" if told_epoch(state, step.facts) > state.epoch else ""


def _of_a_set_change(step: Step, _: SetState, answer: Answer) -> str:
    if step.theirs.code != 2006:
        return ""
    return "RMQ-R111" if answer.code == 2003 else "RMQ-R110"


def _of_an_election(step: Step, state: SetState, answer: Answer) -> str:
    fields, codes = step.request["extFields"], (step.theirs.code, answer.code)
    ends = [one.position.end for one in step.facts.last_heartbeats.values()] or [0]
    is_nobody = fields.get("brokerId", "-1") == "-1"
    rules = {
        "RMQ-R53": is_nobody and fields["designateElect"] == "true",
        "RMQ-R62": codes == (2004, 2004) and step.before["masterBrokerId"] is None,
        "RMQ-R50": codes == (0, 2012) and step.before["masterEpoch"] == 0,
        "RMQ-R70": codes == (0, 0) and max(ends) - min(ends) >= 2**31,
        "RMQ-R58": told_epoch(state, step.facts) > state.epoch,
    }
    return next((rule for rule, holds in rules.items() if holds), "")


def _of_a_cleaning(step: Step, _: SetState, answer: Answer) -> str:
    fields = step.request["extFields"]
    if fields["isCleanLivingBroker"] == "true":
        return "RMQ-R252"
    if "isMissing" in step.theirs.table:
        return "RMQ-R255"
    if (step.theirs.code, answer.code) == (0, 2009):
        return "RMQ-R250"
    master = step.theirs.table.get("masterBrokerId")
    return "RMQ-R256" if master not in {None, *step.theirs.table["brokers"]} else ""


def test_every_recorded_decision_equals_ours_except_for_known_differences() -> None:
    """5 344 requests of 120 histories: answer, fields and tables are the same."""
    _, strange, count = _replayed()

    assert () == strange[:3]
    assert count == 5344


def test_the_page_lists_exactly_the_differences() -> None:
    """A rule that makes no difference any more leaves the page, a new one enters."""
    rows = re.findall(r"^\| (RMQ-R\d+) \|.*\| golden \|$", PAGE.read_text(), re.M)

    assert sorted(_replayed()[0]) == sorted(rows)


def test_every_other_difference_names_a_test_that_exists() -> None:
    """What the histories do not show is shown by hand."""
    rows = re.findall(r"^\| RMQ-R\d+ \|.*\| `(test_\w+)` \|$", PAGE.read_text(), re.M)
    files = Path(__file__).parent.rglob("test_*.py")
    text = "".join(file.read_text() for file in files)

    assert rows
    assert [] == [name for name in rows if f"def {name}(" not in text]


def test_most_decisions_are_the_same() -> None:
    """What is explained by a hole stays a small part of all."""
    reasons, _, count = _replayed()

    assert sum(reasons.values()) < count * 0.15
